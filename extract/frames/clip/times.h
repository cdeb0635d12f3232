// Judges what a clip's presentation times are worth.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "extract/frames/clip/ffmpeg.h"

namespace coldframe::frames {

// The time stamp of every frame in `unit`s of a second, AV_NOPTS_VALUE where there is none →
// seconds since the first frame, each the number that is nearest to the exact one. Times count only
// if they rise from frame to frame; else all are NaN. MPEG streams have no stamp for the frames
// that the decoder still holds at the file's end: these continue the others' interval where that is
// constant, and are NaN where it is not.
std::vector<double> settle_times(const std::vector<std::int64_t>& stamps, const AVRational& unit);

// Where frames that come evenly otherwise leave a gap, as Source::notes(); "" where they do not.
std::string gap_in(const std::vector<double>& times);

}  // namespace coldframe::frames

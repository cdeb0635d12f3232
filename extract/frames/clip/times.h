// Judges what a clip's presentation times are worth.
#pragma once

#include <vector>

namespace coldframe::frames {

// The time stamp of every frame in seconds, NaN where there is none → seconds since the first
// frame. Times count only if they rise from frame to frame; else all are NaN. MPEG streams have no
// stamp for the frames that the decoder still holds at the file's end: these continue the others'
// interval where that is constant, and are NaN where it is not.
std::vector<double> settle_times(std::vector<double> reported);

}  // namespace coldframe::frames

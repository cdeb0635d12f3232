// A look at a clip that costs little: its frames are counted by their packets, and few are decoded.
#pragma once

#include <memory>

#include "extract/frames/source.h"

namespace coldframe::frames {

// Counts and times come out as the job's unless packets and frames differ, as in damaged clips. The
// pictures stand for those that were asked for: key frames before them, or, where a clip has few,
// its first ones.
std::unique_ptr<Source> estimate_clip(const SourceFile& file, const ReaderOptions& options);

}  // namespace coldframe::frames

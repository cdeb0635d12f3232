// What a clip's presentation times, as OpenCV reports them, are worth.
#pragma once

#include <vector>

namespace coldframe::frames {

// Reported seconds of every frame → seconds since the first frame. Times count only if they rise
// from frame to frame; else all are NaN. Two faults of OpenCV 4.6 are mended: it reports a negative
// decoding time for a first frame that is shown at 0, and 0 for frames that the decoder still holds
// at the file's end (its issue 22141). The latter continue the others' interval where that is
// constant, and are NaN where it is not.
std::vector<double> settle_times(std::vector<double> reported);

}  // namespace coldframe::frames

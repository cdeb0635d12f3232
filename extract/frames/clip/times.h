// Judges what a clip's presentation times are worth.
#pragma once

#include <cstdint>
#include <vector>

namespace coldframe::frames {

// The time stamp of every frame in seconds, NaN where there is none → seconds since the first
// frame. Times count only if they rise from frame to frame; else all are NaN. MPEG streams have no
// stamp for the frames that the decoder still holds at the file's end: these continue the others'
// interval where that is constant, and are NaN where it is not.
std::vector<double> settle_times(std::vector<double> reported);

// The same frame by frame: after the first one that breaks the order there are no times.
class RunningTimes {
 public:
  double next(double reported);

 private:
  double first_ = 0, last_ = 0;                 // reported
  double least_ = 0, most_ = 0;                 // intervals between these
  std::int64_t reported_ = 0, unreported_ = 0;  // frames; the latter all behind the former
  bool broken_ = false;
};

}  // namespace coldframe::frames

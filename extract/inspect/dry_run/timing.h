// Judges what an exam's times are worth.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>
#include <span>

namespace coldframe::extract::dry_run {

enum class TimingKind { kUnknown, kPartlyKnown, kSingle, kConstant, kUneven };

struct Timing {
  TimingKind kind = TimingKind::kUnknown;
  double span_s = std::numeric_limits<double>::quiet_NaN();  // of the known times
  // Median between neighbours at different times.
  double interval_s = std::numeric_limits<double>::quiet_NaN();
  std::size_t at_once = 1;                    // frames at each time, where all have as many
  std::size_t duplicate = 0, decreasing = 0;  // neighbours that are
};

// Times in the order of the frames, NaN where unknown. Intervals count as constant when each lies
// within 2 % or 1.5 ms (containers round to milliseconds) of their median; those of 0 do not count
// where every time has as many frames (the slices of a volume), and are uneven elsewhere.
Timing describe_times(std::span<const double> times_s);

}  // namespace coldframe::extract::dry_run

// Small figures of one exam that several verbs show.
#pragma once

#include <vector>

#include "cache/format/exam.h"

namespace coldframe::cache::tool {

// Seconds from the first to the last frame whose time is known; NaN with fewer than two of them.
double time_span(const ExamInfo& exam);

// Seconds between neighbouring frames whose times are known.
std::vector<double> intervals(const ExamInfo& exam);

// Examinations of one patient lie days or years apart, frames of a clip milliseconds.
struct TimeUnit {
  const char *name, *sign;  // "days", " d"
  double seconds = 1;
};
TimeUnit time_unit(double typical_seconds);
// Converts times to the unit of their median, and returns the unit. NaN: unknown.
TimeUnit to_own_unit(std::vector<double>& seconds);

}  // namespace coldframe::cache::tool

#include "cache/tool/figures/times.h"

#include <algorithm>
#include <cmath>

namespace coldframe::cache::tool {

std::size_t missing_frames(const ExamInfo& exam) {
  return static_cast<std::size_t>(std::count(exam.present.begin(), exam.present.end(), 0));
}

double time_span(const ExamInfo& exam) {
  std::vector<double> known;
  for (const double time : exam.time_s)
    if (std::isfinite(time)) known.push_back(time);
  return known.size() < 2 ? kUnknownTime : known.back() - known.front();
}

std::vector<double> intervals(const ExamInfo& exam) {
  std::vector<double> steps;
  for (std::size_t t = 1; t < exam.time_s.size(); ++t)
    if (std::isfinite(exam.time_s[t]) && std::isfinite(exam.time_s[t - 1]))
      steps.push_back(exam.time_s[t] - exam.time_s[t - 1]);
  return steps;
}

TimeUnit time_unit(double typical_seconds) {
  constexpr double kDay = 86400, kYear = 365.25 * kDay;
  if (typical_seconds >= 2 * kYear) return {"years", " years", kYear};
  if (typical_seconds >= 2 * kDay) return {"days", " days", kDay};
  return {"seconds", " s", 1};
}

}  // namespace coldframe::cache::tool

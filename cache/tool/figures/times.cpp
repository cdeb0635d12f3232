#include "cache/tool/figures/times.h"

#include <cmath>

#include "common/numbers/finite.h"
#include "common/numbers/quantile.h"

namespace coldframe::cache::tool {

double time_span(const ExamInfo& exam) {
  const std::vector<double> known = finite_values(exam.time_s);
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

TimeUnit to_own_unit(std::vector<double>& seconds) {
  const std::vector<double> known = finite_values(seconds);
  const TimeUnit unit = time_unit(known.empty() ? 0 : median(known));
  for (double& each : seconds) each /= unit.seconds;
  return unit;
}

}  // namespace coldframe::cache::tool

#include "cache/tool/odd/finder.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "common/charts/svg.h"
#include "common/numbers/finite.h"
#include "common/numbers/quantile.h"
#include "common/text/text.h"

namespace coldframe::cache::tool {
namespace {

constexpr std::size_t kLeastExams = 10, kAlwaysOdd = 3, kFramesNamed = 4;
// Two in a billion of a normal distribution lie beyond it; real ones have heavier tails.
constexpr double kLimit = 6, kMostStrength = 10;

std::vector<double> logarithms(const std::vector<double>& values) {
  std::vector<double> logs;
  for (const double value : values) logs.push_back(value > 0 ? std::log(value) : std::nan(""));
  return logs;
}

// [N] modified z-scores; NaN for NaN, 0 where too few numbers are known to judge by.
std::vector<double> modified_scores(const std::vector<double>& values) {
  std::vector<double> scores, deviations = finite_values(values);
  const bool enough = deviations.size() >= kLeastExams;
  const double middle = enough ? median(deviations) : 0;
  double sum = 0;
  for (double& each : deviations) sum += each = std::abs(each - middle);
  const double mad = enough ? median(deviations) : 0;
  const double scale =
      mad > 0 ? mad / 0.6745 : 1.2533 * sum / static_cast<double>(deviations.size());
  for (const double value : values)
    scores.push_back(!std::isfinite(value) ? std::nan("")
                     : enough && scale > 0 ? (value - middle) / scale
                                           : 0);
  return scores;
}

}  // namespace

void OddityFinder::note(const std::string& kind, std::size_t exam, std::string text,
                        double strength) {
  if (!found_.contains(kind)) kinds_.push_back(kind);
  found_[kind][exam].push_back({std::move(text), strength});
}

void OddityFinder::measure(const Measure& measure, const std::vector<double>& values,
                           const Words& words) {
  const std::vector<double> known = finite_values(values);
  if (known.size() < kLeastExams) return;
  const double usual = median(known);
  const auto others = static_cast<std::size_t>(
      std::ranges::count_if(known, [&](double value) { return value != usual; }));
  // If most exams share one value, such as 0, the others are compared with each other.
  if (2 * others < known.size() && others >= kLeastExams) {
    std::vector<double> rest = values;
    std::ranges::replace(rest, usual, std::nan(""));
    return this->measure(measure, rest, [&](std::size_t exam, double value, double middle) {
      return concat(words(exam, value, middle), " where it is not ", html::number_text(usual));
    });
  }
  // A long tail of plain numbers above 0 is one that ratios do not show as one.
  const std::vector<double> of_ratios = modified_scores(logarithms(values));
  const std::vector<double> of_differences = measure.ratio ? of_ratios : modified_scores(values);
  for (std::size_t exam = 0; exam < values.size(); ++exam) {
    double score = std::abs(of_differences[exam]);
    if (!measure.ratio && std::isfinite(of_ratios[exam]) && usual > 0)
      score = std::min(score, std::abs(of_ratios[exam]));
    if (!(score > kLimit) || values[exam] < measure.least ||
        (measure.only_high && values[exam] < usual))
      continue;
    const double factor = std::max(values[exam] / usual, usual / values[exam]);
    if (measure.ratio && factor < measure.least_factor) continue;
    note(measure.kind, exam, words(exam, values[exam], usual),
         std::min(score / kLimit, kMostStrength));
  }
}

// A reason is too common to be odd when all exams have it, or more than a tenth of them.
bool OddityFinder::is_common(const std::string& kind) const {
  const std::size_t count = cache_.exams().size(), having = found_.at(kind).size();
  return having == count || having > std::max(kAlwaysOdd, count / 10);
}

bool OddityFinder::is_outlier(std::size_t exam) const {
  return std::ranges::any_of(std::array{kOddNorm, kFarAway},
                             [&](const char* kind) { return has(kind, exam) && !is_common(kind); });
}

bool OddityFinder::has(const std::string& kind, std::size_t exam) const {
  const auto place = found_.find(kind);
  return place != found_.end() && place->second.contains(exam);
}

void OddityFinder::finish(Oddities& oddities) const {
  const std::size_t count = cache_.exams().size();
  oddities.oddness.assign(count, 0);
  oddities.reasons.assign(count, "");
  for (const std::string& kind : kinds_) {
    const auto& exams = found_.at(kind);
    if (is_common(kind)) {
      const std::string& example = cache_.exams()[exams.begin()->first].id;
      if (exams.size() < count)
        oddities.common.push_back(
            concat(kind, ": ", exams.size(), " of ", count, " exams, such as ", example));
      continue;
    }
    for (const auto& [exam, reasons] : exams)
      for (const Reason& reason : reasons) {
        oddities.oddness[exam] += reason.strength;
        oddities.reasons[exam] += (oddities.reasons[exam].empty() ? "" : "; ") + reason.text;
      }
  }
}

std::string name_frames(const std::vector<std::size_t>& frames) {
  std::vector<std::string> names;
  for (const std::size_t frame : frames) names.push_back(concat(frame));
  if (names.size() == 1) return "frame " + names[0];
  if (names.size() <= kFramesNamed) {
    const std::string last = names.back();
    names.pop_back();
    return concat("frames ", join(names, ", "), " and ", last);
  }
  names.resize(kFramesNamed - 1);
  return concat(frames.size(), " frames (", join(names, ", "), ", …)");
}

Oddities find_oddities(const Examined& examined) {
  OddityFinder finder(examined.cache);
  Oddities oddities;
  find_odd_features(examined, finder, oddities);
  find_odd_neighbours(examined, finder);
  find_odd_sequences(examined, finder);
  find_odd_columns(examined, finder);
  finder.finish(oddities);
  for (std::size_t exam = 0; exam < examined.cache.exams().size(); ++exam)
    oddities.outlier.push_back(finder.is_outlier(exam));
  return oddities;
}

}  // namespace coldframe::cache::tool

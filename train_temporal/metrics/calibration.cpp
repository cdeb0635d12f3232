#include "train_temporal/metrics/calibration.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace coldframe::temporal {
namespace {

constexpr double kLowestTemperature = 0.05, kHighestTemperature = 20.0;

// Platt's targets (1999): with n exams of a class its target probability is (n + 1) / (n + 2), not
// 1, and the others share the rest. A validation part that the model separates perfectly would
// otherwise ask for a temperature of 0, and small parts often are.
std::vector<double> smoothed_targets(std::size_t classes, std::span<const int> label) {
  std::vector<double> count(classes, 0), target(label.size() * classes);
  for (int l : label) count[static_cast<std::size_t>(l)] += 1;
  for (std::size_t i = 0; i < label.size(); ++i) {
    const double n = count[static_cast<std::size_t>(label[i])];
    const double rest = 1.0 / (n + 2.0);
    for (std::size_t c = 0; c < classes; ++c) {
      const bool own = static_cast<int>(c) == label[i];
      target[i * classes + c] = own ? (n + 1.0) * rest : rest / static_cast<double>(classes - 1);
    }
  }
  return target;
}

struct Slope {
  double first = 0, second = 0;  // derivatives of the loss with respect to 1 / T
};

// The loss is convex in 1/T: its first derivative is E_p[z] − E_target[z], its second Var_p[z].
Slope loss_slope(std::span<const double> logits, std::size_t classes,
                 std::span<const double> target, double inverse) {
  const std::vector<double> p = softmax(logits, classes, 1.0 / inverse);
  Slope slope;
  for (std::size_t row = 0; row < p.size(); row += classes) {
    double mean = 0, square = 0;
    for (std::size_t c = row; c < row + classes; ++c) {
      mean += p[c] * logits[c];
      square += p[c] * logits[c] * logits[c];
      slope.first -= target[c] * logits[c];
    }
    slope.first += mean;
    slope.second += square - mean * mean;
  }
  return slope;
}

// A patient's exams in one bin.
struct Tally {
  double exams = 0, hits = 0;
};

// Estimates the error of a share as the ratio of sums over patients (Cochran 1977, 6.4).
Spread spread_of(const std::map<std::size_t, Tally>& tallies, double share) {
  const auto n = static_cast<double>(tallies.size());
  double squares = 0, exams = 0;
  for (const auto& [patient, tally] : tallies) {
    const double residual = tally.hits - share * tally.exams;
    squares += residual * residual;
    exams += tally.exams;
  }
  const double freedom = std::max(n - 1, 1.0);
  return {n / freedom * squares / (exams * exams), freedom, tallies.size()};
}

}  // namespace

std::vector<double> softmax(std::span<const double> logits, std::size_t classes,
                            double temperature) {
  std::vector<double> result(logits.size());
  for (std::size_t row = 0; row < logits.size(); row += classes) {
    const auto z = logits.subspan(row, classes);
    const double highest = *std::max_element(z.begin(), z.end());
    double sum = 0;
    for (std::size_t c = 0; c < classes; ++c) {
      sum += result[row + c] = std::exp((z[c] - highest) / temperature);
    }
    for (std::size_t c = 0; c < classes; ++c) result[row + c] /= sum;
  }
  return result;
}

double fit_temperature(std::span<const double> logits, std::size_t classes,
                       std::span<const int> label) {
  const bool one_class =
      std::ranges::adjacent_find(label, std::ranges::not_equal_to{}) == label.end();
  const bool finite = std::ranges::all_of(logits, [](double z) { return std::isfinite(z); });
  if (one_class || !finite) return 1.0;
  const std::vector<double> target = smoothed_targets(classes, label);
  // Newton's method on 1/T, kept inside a bracket by bisection.
  double low = 1.0 / kHighestTemperature, high = 1.0 / kLowestTemperature, inverse = 1.0;
  if (loss_slope(logits, classes, target, inverse).second <= 0) return 1.0;  // logits all equal
  for (int step = 0; step < 200 && high - low > 1e-13 * high; ++step) {
    const Slope slope = loss_slope(logits, classes, target, inverse);
    (slope.first > 0 ? high : low) = inverse;
    double next = inverse - slope.first / slope.second;
    if (!(next > low && next < high)) next = (low + high) / 2;
    if (std::abs(next - inverse) <= 1e-14 * inverse) break;
    inverse = next;
  }
  return 1.0 / inverse;
}

Threshold youden_threshold(std::span<const double> score, std::span<const int> positive) {
  const Curve roc = roc_curve(score, positive);
  if (roc.x.empty()) return {0.5, MetricValue::none("the validation part has one class only")};
  Threshold best{0.5, MetricValue::none("no threshold is better than chance")};
  for (std::size_t i = 1; i + 1 < roc.x.size(); ++i) {
    const double youden = roc.y[i] - roc.x[i];
    const double above = roc.threshold[i], below = roc.threshold[i + 1];
    double middle = (above + below) / 2;
    if (!(middle > below)) middle = above;  // neighbouring doubles
    const double reached = best.youden.defined() ? best.youden.value : 0.0;
    const bool equal = best.youden.defined() && std::abs(youden - reached) < 1e-12;
    const bool nearer = std::abs(middle - 0.5) < std::abs(best.value - 0.5);
    if ((!equal && youden > reached) || (equal && nearer)) best = {middle, MetricValue::of(youden)};
  }
  return best;
}

std::vector<ReliabilityBin> reliability(const ScoredExams& exams, std::size_t bins,
                                        std::span<const std::size_t> patients) {
  std::vector<ReliabilityBin> result(bins);
  std::vector<std::map<std::size_t, Tally>> tallies(bins);  // by patient
  for (std::size_t i = 0; i < exams.size(); ++i) {
    const auto row = std::span(exams.predicted).subspan(i * exams.width, exams.width);
    const auto most = exams.width == 2 ? row.begin() + 1 : std::max_element(row.begin(), row.end());
    const double place = std::floor(*most * static_cast<double>(bins));
    const auto bin =
        static_cast<std::size_t>(std::clamp(place, 0.0, static_cast<double>(bins - 1)));
    const bool hit = exams.label[i] == static_cast<int>(most - row.begin());
    ++result[bin].count;
    result[bin].mean_probability += *most;
    result[bin].observed += hit;
    if (patients.empty()) continue;
    Tally& tally = tallies[bin][patients[i]];
    tally.exams += 1;
    tally.hits += hit;
  }
  for (std::size_t b = 0; b < bins; ++b) {
    ReliabilityBin& bin = result[b];
    if (bin.count == 0) continue;
    bin.mean_probability /= static_cast<double>(bin.count);
    bin.observed /= static_cast<double>(bin.count);
    if (!patients.empty()) bin.spread = spread_of(tallies[b], bin.observed);
  }
  return result;
}

MetricValue expected_calibration_error(const ScoredExams& exams, std::size_t bins) {
  if (exams.size() == 0) return MetricValue::none("no exams");
  double sum = 0;
  for (const ReliabilityBin& bin : reliability(exams, bins)) {
    sum += static_cast<double>(bin.count) * std::abs(bin.observed - bin.mean_probability);
  }
  return MetricValue::of(sum / static_cast<double>(exams.size()));
}

}  // namespace coldframe::temporal

#include "train_temporal/evaluate/calibration.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

namespace coldframe::temporal {

namespace {

constexpr double kLowestTemperature = 0.05, kHighestTemperature = 20.0;

// Platt's targets (1999): the target probability of a class with n exams is (n + 1) / (n + 2)
// instead of 1, and the others share the rest. Otherwise a perfectly separated validation part,
// which is frequent for small ones, would require a temperature of 0.
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

namespace {

std::vector<double> clipped_logits(std::span<const double> probability) {
  constexpr double kEpsilon = 1e-7;
  std::vector<double> logit;
  logit.reserve(probability.size());
  for (double p : probability) {
    const double clipped = std::clamp(p, kEpsilon, 1.0 - kEpsilon);
    logit.push_back(std::log(clipped) - std::log1p(-clipped));
  }
  return logit;
}

// Why the maximum of the likelihood lies at infinity, or is not unique; empty when it exists. It
// exists exactly when the two classes overlap in both directions.
std::string no_maximum(std::span<const double> logit, std::span<const int> positive) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  double low[2] = {kInfinity, kInfinity}, high[2] = {-kInfinity, -kInfinity};
  for (std::size_t i = 0; i < logit.size(); ++i) {
    const int side = positive[i] ? 1 : 0;
    low[side] = std::min(low[side], logit[i]);
    high[side] = std::max(high[side], logit[i]);
  }
  if (low[1] == kInfinity) return "no positive exam";
  if (low[0] == kInfinity) return "no negative exam";
  if (std::min(low[0], low[1]) == std::max(high[0], high[1])) return "all scores are equal";
  if (high[0] <= low[1] || high[1] <= low[0]) return "the scores separate the classes";
  return {};
}

struct Line {
  double intercept = 0, slope = 0;
};

// The search stands at a log-likelihood and at the step that Newton's method proposes.
struct Standing {
  double likelihood = 0;
  Line step;
};

constexpr std::size_t kFactors = 512;  // of at most 2 each; their product does not overflow

Standing evaluate(const Line& line, std::span<const double> x, std::span<const int> positive) {
  double likelihood = 0, product = 1, g0 = 0, g1 = 0, h00 = 0, h01 = 0, h11 = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double eta = line.intercept + line.slope * x[i];
    const double small = std::exp(-std::abs(eta));  // never overflows
    const double p = (eta > 0 ? 1.0 : small) / (1.0 + small), weight = p * (1.0 - p);
    const double error = (positive[i] ? 1.0 : 0.0) - p;
    likelihood += (positive[i] ? eta : 0.0) - std::max(eta, 0.0);
    product *= 1.0 + small;  // one logarithm of many factors
    if (i % kFactors == kFactors - 1) likelihood -= std::log(std::exchange(product, 1.0));
    g0 += error;
    g1 += error * x[i];
    h00 += weight;
    h01 += weight * x[i];
    h11 += weight * x[i] * x[i];
  }
  likelihood -= std::log(product);
  const double determinant = h00 * h11 - h01 * h01;
  return {likelihood, {(h11 * g0 - h01 * g1) / determinant, (h00 * g1 - h01 * g0) / determinant}};
}

// Newton's method, the step halved while the likelihood would fall. NaN if it does not settle.
Line maximise(std::span<const double> x, std::span<const int> positive) {
  Line line;
  Standing here = evaluate(line, x, positive);
  Line step = here.step;
  for (int iteration = 0; iteration < 200; ++iteration) {
    const Line next{line.intercept + step.intercept, line.slope + step.slope};
    const Standing there = evaluate(next, x, positive);
    if (there.likelihood >= here.likelihood - 1e-12 * std::abs(here.likelihood)) {
      const double size = 1.0 + std::abs(next.intercept) + std::abs(next.slope);
      // The error after a step is about its square.
      if (std::abs(step.intercept) + std::abs(step.slope) <= 1e-8 * size) return next;
      line = next;
      here = there;
      step = here.step;
    } else {
      step = {step.intercept / 2, step.slope / 2};
    }
  }
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  return {kNan, kNan};
}

}  // namespace

CalibrationLine calibration_line(std::span<const double> probability,
                                 std::span<const int> positive) {
  std::vector<double> x = clipped_logits(probability);
  if (std::string why = no_maximum(x, positive); !why.empty()) {
    return {MetricValue::none(why), MetricValue::none(why)};
  }
  // Standardised, so that Newton's equations are well conditioned whatever the scale.
  const double n = static_cast<double>(x.size());
  double mean = 0, variance = 0;
  for (double value : x) mean += value / n;
  for (double value : x) variance += (value - mean) * (value - mean) / n;
  const double deviation = std::sqrt(variance);
  for (double& value : x) value = (value - mean) / deviation;
  const Line line = maximise(x, positive);
  if (!std::isfinite(line.slope) || !std::isfinite(line.intercept)) {
    return {MetricValue::none("the fit does not converge"),
            MetricValue::none("the fit does not converge")};
  }
  const double slope = line.slope / deviation;
  return {MetricValue::of(slope), MetricValue::of(line.intercept - slope * mean)};
}

}  // namespace coldframe::temporal

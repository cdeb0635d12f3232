#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "train_temporal/metrics/calibration.h"

namespace coldframe::temporal {
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

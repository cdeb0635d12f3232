// The metrics that depend on the order of scores alone, and their curves.
#include "train_temporal/evaluate/metrics.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>

namespace coldframe::temporal {

namespace {

// A threshold at one of the distinct scores, and what lies at or above it.
struct Step {
  double threshold;
  std::uint64_t true_positives, false_positives;
};

// Steps come from the highest distinct score down; there are none when a score is not a number.
std::vector<Step> sweep(std::span<const double> score, std::span<const int> positive) {
  if (!std::ranges::all_of(score, [](double s) { return std::isfinite(s); })) return {};
  std::vector<std::size_t> order(score.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto higher = [&](std::size_t a, std::size_t b) { return score[a] > score[b]; };
  // The jackknife passes exams that are sorted already.
  if (!std::ranges::is_sorted(order, higher)) std::ranges::sort(order, higher);
  std::vector<Step> steps;
  std::uint64_t true_positives = 0, false_positives = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    (positive[order[i]] ? true_positives : false_positives) += 1;
    const bool tied = i + 1 < order.size() && score[order[i + 1]] == score[order[i]];
    if (!tied) steps.push_back({score[order[i]], true_positives, false_positives});
  }
  return steps;
}

// Why a ranking of these exams says nothing; empty when it does.
std::string unusable(const std::vector<Step>& steps, std::size_t exams) {
  if (exams == 0) return "no exams";
  if (steps.empty()) return "a score is not a number";
  if (steps.back().true_positives == 0) return "no positive exam";
  if (steps.back().false_positives == 0) return "no negative exam";
  return {};
}

}  // namespace

MetricValue auroc(std::span<const double> score, std::span<const int> positive) {
  const std::vector<Step> steps = sweep(score, positive);
  if (std::string why = unusable(steps, score.size()); !why.empty()) return MetricValue::none(why);
  // Twice the Mann–Whitney statistic, in whole numbers: each negative counts the positives above
  // it twice and those tied with it once.
  std::uint64_t doubled = 0, above = 0, negatives = 0;
  for (const Step& step : steps) {
    doubled += (step.false_positives - negatives) * (above + step.true_positives);
    above = step.true_positives;
    negatives = step.false_positives;
  }
  return MetricValue::of(static_cast<double>(doubled) / 2.0 / static_cast<double>(above) /
                         static_cast<double>(negatives));
}

MetricValue average_precision(std::span<const double> score, std::span<const int> positive) {
  const std::vector<Step> steps = sweep(score, positive);
  if (std::string why = unusable(steps, score.size()); !why.empty()) return MetricValue::none(why);
  double sum = 0;
  std::uint64_t above = 0;
  for (const Step& step : steps) {
    const double precision = static_cast<double>(step.true_positives) /
                             static_cast<double>(step.true_positives + step.false_positives);
    sum += static_cast<double>(step.true_positives - above) * precision;
    above = step.true_positives;
  }
  return MetricValue::of(sum / static_cast<double>(above));
}

Curve roc_curve(std::span<const double> score, std::span<const int> positive) {
  const std::vector<Step> steps = sweep(score, positive);
  if (!unusable(steps, score.size()).empty()) return {};
  Curve curve{{0.0}, {0.0}, {std::numeric_limits<double>::infinity()}};
  for (const Step& step : steps) {
    curve.x.push_back(static_cast<double>(step.false_positives) /
                      static_cast<double>(steps.back().false_positives));
    curve.y.push_back(static_cast<double>(step.true_positives) /
                      static_cast<double>(steps.back().true_positives));
    curve.threshold.push_back(step.threshold);
  }
  return curve;
}

Curve precision_recall_curve(std::span<const double> score, std::span<const int> positive) {
  const std::vector<Step> steps = sweep(score, positive);
  if (!unusable(steps, score.size()).empty()) return {};
  Curve curve{{0.0}, {1.0}, {std::numeric_limits<double>::infinity()}};
  for (const Step& step : steps) {
    curve.x.push_back(static_cast<double>(step.true_positives) /
                      static_cast<double>(steps.back().true_positives));
    curve.y.push_back(static_cast<double>(step.true_positives) /
                      static_cast<double>(step.true_positives + step.false_positives));
    curve.threshold.push_back(step.threshold);
  }
  return curve;
}

OneVsRest one_vs_rest(const ScoredExams& exams, std::size_t of_class) {
  OneVsRest result;
  result.score.reserve(exams.size());
  result.positive.reserve(exams.size());
  for (std::size_t i = 0; i < exams.size(); ++i) {
    result.score.push_back(exams.score(i, of_class));
    result.positive.push_back(exams.label[i] == static_cast<int>(of_class));
  }
  return result;
}

std::vector<double> roc_at(const Curve& curve, const std::vector<double>& grid) {
  std::vector<double> y;
  for (double x : grid) {
    const auto above = std::ranges::upper_bound(curve.x, x) - curve.x.begin();
    const auto i = static_cast<std::size_t>(above);  // the first point right of x
    if (i == curve.x.size()) {
      y.push_back(curve.y.back());
      continue;
    }
    const double part = (x - curve.x[i - 1]) / (curve.x[i] - curve.x[i - 1]);
    y.push_back(curve.y[i - 1] + part * (curve.y[i] - curve.y[i - 1]));
  }
  return y;
}

std::vector<double> precision_at(const Curve& curve, const std::vector<double>& grid) {
  std::vector<double> y;
  for (double recall : grid) {
    // The first point with a threshold: recall 0 would else take the artificial one at (0, 1).
    const auto found = std::lower_bound(curve.x.begin() + 1, curve.x.end(), recall - 1e-12);
    const auto i = static_cast<std::size_t>(found - curve.x.begin());
    y.push_back(curve.y[std::min(i, curve.y.size() - 1)]);
  }
  return y;
}

Averages average(const std::vector<std::vector<double>>& curves) {
  Averages result;
  std::size_t longest = 0;
  for (const auto& curve : curves) longest = std::max(longest, curve.size());
  for (std::size_t i = 0; i < longest; ++i) {
    double sum = 0, n = 0, least = INFINITY, most = -INFINITY;
    for (const auto& curve : curves) {
      if (i >= curve.size() || !std::isfinite(curve[i])) continue;
      sum += curve[i];
      least = std::min(least, curve[i]);
      most = std::max(most, curve[i]);
      n += 1;
    }
    result.mean.push_back(n > 0 ? sum / n : NAN);
    result.low.push_back(least);
    result.high.push_back(most);
  }
  return result;
}

}  // namespace coldframe::temporal

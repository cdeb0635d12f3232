#include "train_temporal/metrics/fit_spread.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>

#include "train_temporal/metrics/bounds.h"
#include "train_temporal/metrics/intervals.h"

namespace coldframe::temporal {

namespace {

// Adds the figures of one fit.
void add_fit(std::vector<MetricOfFits>& all, const std::vector<FoldScores>& parts,
             const std::vector<Metric>& metrics, FiguresOfFits MetricOfFits::*taken) {
  for (std::size_t part = 0; part < parts.size(); ++part) {
    const std::vector<MetricValue> figures = compute_metrics(metrics, parts[part].exams);
    for (std::size_t m = 0; m < metrics.size(); ++m) {
      FiguresOfFits& own = all[m].*taken;
      own.resize(parts.size());
      own[part].push_back(figures[m].value);
    }
  }
}

// One part, whose fits are the repeats.
FiguresOfFits of_repeats(const std::vector<MetricValue>& by_fold,
                         std::span<const FoldScores> folds) {
  std::vector<std::vector<double>> in_repeat;
  for (std::size_t f = 0; f < folds.size(); ++f) {
    if (f == 0 || folds[f].repeat != folds[f - 1].repeat) in_repeat.emplace_back();
    in_repeat.back().push_back(by_fold[f].value);
  }
  if (in_repeat.size() < 2) return {};
  FiguresOfFits figures(1);
  for (const std::vector<double>& one : in_repeat) figures[0].push_back(mean_defined(one));
  return figures;
}

FiguresOfFits of_pooled_repeats(const std::vector<MetricValue>& by_repeat) {
  if (by_repeat.size() < 2) return {};
  FiguresOfFits figures(1);
  for (const MetricValue& one : by_repeat) figures[0].push_back(one.value);
  return figures;
}

// Of the mean over parts. The degrees of freedom are Satterthwaite's, since parts differ in their
// variance. With fewer than two, Student's quantile says nothing: unknown.
struct FitSpread {
  double variance = 0, freedom = 0;
  bool known() const { return freedom >= 2; }
};

// Of a − b.
FitSpread spread_of(const FiguresOfFits& a, const FiguresOfFits& b) {
  FitSpread spread;
  double parts = 0, all = 0, of_variance = 0;
  for (std::size_t part = 0; part < std::min(a.size(), b.size()); ++part) {
    if (a[part].size() != b[part].size()) return {};
    std::vector<double> ahead;
    std::ranges::transform(a[part], b[part], std::back_inserter(ahead), std::minus{});
    const auto n = static_cast<double>(ahead.size());
    if (n < 2 || std::ranges::any_of(ahead, [](double one) { return std::isnan(one); })) continue;
    const double mean = mean_defined(ahead);
    double squares = 0;
    for (const double one : ahead) squares += (one - mean) * (one - mean);
    const double variance = squares / (n - 1) / n;
    spread.variance += variance;
    of_variance += variance * variance / (n - 1);
    all += n - 1;
    parts += 1;
  }
  if (parts == 0) return spread;
  spread.freedom = of_variance > 0 ? spread.variance * spread.variance / of_variance : all;
  spread.variance /= parts * parts;
  return spread;
}

void include(Estimate& difference, const FitSpread& spread, double level, double most) {
  if (!difference.value.defined() || !spread.known()) return;
  const double error = std::sqrt(spread.variance), d = difference.value.value;
  difference.error_of_fits = error;
  if (!difference.low.defined() || error == 0) return;
  const auto reach = [&](double bound, double of) {
    return std::hypot(bound - d, error * student_quantile((1 + of) / 2, spread.freedom));
  };
  const auto possible = [&](double bound) { return std::clamp(bound, -most, most); };
  difference.low = MetricValue::of(possible(d - reach(difference.low.value, level)));
  difference.high = MetricValue::of(possible(d + reach(difference.high.value, level)));
  difference.claim_low = possible(d - reach(difference.claim_low, kClaimLevel));
  difference.claim_high = possible(d + reach(difference.claim_high, kClaimLevel));
}

}  // namespace

std::vector<MetricOfFits> figures_of_fits(const MetricTable& table,
                                          std::span<const FoldScores> folds,
                                          std::span<const std::vector<FoldScores>> fits) {
  std::vector<MetricOfFits> all(table.metrics.size());
  for (const std::vector<FoldScores>& fit : fits) {
    add_fit(all, fit, table.metrics, &MetricOfFits::over_folds);
    add_fit(all, pooled_by_repeat(fit), table.metrics, &MetricOfFits::pooled);
  }
  if (!fits.empty()) return all;
  for (std::size_t m = 0; m < all.size(); ++m)
    all[m] = {of_repeats(table.per_fold[m], folds), of_pooled_repeats(table.pooled[m])};
  return all;
}

void include_fits(std::vector<PairedDifference>& differences, const std::vector<MetricOfFits>& a,
                  const std::vector<MetricOfFits>& b, double level) {
  for (std::size_t m = 0; m < differences.size(); ++m) {
    const MetricRange range = range_of(differences[m].metric);
    const double most = range.high - range.low;
    include(differences[m].mean_over_folds, spread_of(a[m].over_folds, b[m].over_folds), level,
            most);
    include(differences[m].pooled, spread_of(a[m].pooled, b[m].pooled), level, most);
  }
}

}  // namespace coldframe::temporal

#include "train_temporal/metrics/intervals.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <numeric>

#include "common/text/text.h"
#include "common/threads/counter_random.h"

namespace coldframe::temporal {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

const std::vector<std::size_t>& drawn_patients(const FoldScores& fold) {
  return fold.drawn_from.empty() ? fold.patient : fold.drawn_from;
}

std::size_t patient_count(std::span<const FoldScores> folds) {
  std::size_t count = 0;
  for (const FoldScores& fold : folds) {
    for (std::size_t patient : drawn_patients(fold)) count = std::max(count, patient + 1);
  }
  return count;
}

// The patients of each fold of the first repeat; those seen in later repeats only are one more.
std::vector<std::vector<std::size_t>> strata_of(std::span<const FoldScores> folds) {
  std::vector<bool> seen(patient_count(folds), false);
  std::vector<std::vector<std::size_t>> strata;
  std::vector<std::size_t> late;
  for (const FoldScores& fold : folds) {
    const bool first_repeat = fold.repeat == folds.front().repeat;
    if (first_repeat) strata.emplace_back();
    for (std::size_t patient : drawn_patients(fold)) {
      if (seen[patient]) continue;
      seen[patient] = true;
      (first_repeat ? strata.back() : late).push_back(patient);
    }
  }
  strata.push_back(std::move(late));
  for (auto& stratum : strata) std::ranges::sort(stratum);
  return strata;
}

// The exams ordered by score, so that resamples of a binary task arrive sorted at the rank
// statistics.
FoldScores sorted_by_score(const FoldScores& fold) {
  if (fold.exams.classes != 2) return fold;
  std::vector<std::size_t> order(fold.exams.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const bool finite =
      std::ranges::all_of(fold.exams.probability, [](double p) { return std::isfinite(p); });
  if (finite) {
    std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
      return fold.exams.score(a, 1) > fold.exams.score(b, 1);
    });
  }
  FoldScores sorted{fold.repeat, fold.fold, {}, {}};
  sorted.exams.scale = fold.exams.scale;
  for (std::size_t exam : order) {
    for (std::size_t c = 0; c < 2; ++c) {
      sorted.exams.probability.push_back(fold.exams.score(exam, c));
    }
    sorted.exams.label.push_back(fold.exams.label[exam]);
    sorted.exams.decision.push_back(fold.exams.decision[exam]);
    sorted.patient.push_back(fold.patient[exam]);
  }
  return sorted;
}

// Appends the exams of `fold`, each as often as its patient was drawn.
void append(ScoredExams& into, const FoldScores& fold, std::span<const std::uint32_t> drawn) {
  const std::size_t classes = into.classes = fold.exams.classes;
  into.scale = fold.exams.scale;
  for (std::size_t i = 0; i < fold.exams.size(); ++i) {
    const auto row = fold.exams.probability.begin() + static_cast<std::ptrdiff_t>(i * classes);
    for (std::uint32_t n = 0; n < drawn[fold.patient[i]]; ++n) {
      into.probability.insert(into.probability.end(), row,
                              row + static_cast<std::ptrdiff_t>(classes));
      into.label.push_back(fold.exams.label[i]);
      into.decision.push_back(fold.exams.decision[i]);
      if (into.scale == Scale::kNumber) into.number.push_back(fold.exams.number[i]);
    }
  }
}

// The samples on which metrics are computed: each fold, then each repeat with its folds pooled.
struct Samples {
  std::vector<ScoredExams> fold, pooled;
};

Samples samples_of(std::span<const FoldScores> folds, std::span<const std::uint32_t> drawn) {
  Samples samples;
  for (std::size_t f = 0; f < folds.size(); ++f) {
    append(samples.fold.emplace_back(), folds[f], drawn);
    if (f == 0 || folds[f].repeat != folds[f - 1].repeat) samples.pooled.emplace_back();
    append(samples.pooled.back(), folds[f], drawn);
  }
  return samples;
}

// [metric][sample]
std::vector<std::vector<Figure>> figures(const std::vector<ScoredExams>& samples) {
  std::vector<std::vector<Figure>> result;
  for (const ScoredExams& sample : samples) {
    std::vector<Figure> column = compute_metrics(sample);
    result.resize(column.size());
    for (std::size_t m = 0; m < column.size(); ++m) result[m].push_back(std::move(column[m]));
  }
  return result;
}

std::vector<double> values(const std::vector<Figure>& figures) {
  std::vector<double> result;
  for (const Figure& figure : figures) result.push_back(figure.value);
  return result;
}

// Mean of what is defined; NaN when nothing is.
double mean_defined(std::span<const double> numbers) {
  double sum = 0, count = 0;
  for (double number : numbers) {
    if (std::isnan(number)) continue;
    sum += number;
    count += 1;
  }
  return count > 0 ? sum / count : kNan;
}

double sd_defined(std::span<const double> numbers) {
  const double mean = mean_defined(numbers);
  double sum = 0, count = 0;
  for (double number : numbers) {
    if (std::isnan(number)) continue;
    sum += (number - mean) * (number - mean);
    count += 1;
  }
  return count > 1 ? std::sqrt(sum / (count - 1)) : kNan;
}

// Linear interpolation between order statistics, as numpy.quantile has it.
double quantile(const std::vector<double>& sorted, double q) {
  const double position = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (position - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

double normal_share(double z) {
  return 0.5 * std::erfc(-z / std::sqrt(2.0));
}  // Φ(z)

double normal_quantile(double share) {  // by bisection; ±8 for shares that are nearly 0 or 1
  double low = -8, high = 8;
  for (int step = 0; step < 60; ++step) {
    const double middle = (low + high) / 2;
    (normal_share(middle) < share ? low : high) = middle;
  }
  return (low + high) / 2;
}

// Tells how far the estimate lies above the median of the (sorted) draws, in standard deviations;
// ties count half. It is limited, as a finite number of draws knows its tails badly.
double median_bias(const std::vector<double>& sorted, double value) {
  const auto [first, last] = std::ranges::equal_range(sorted, value);
  const double below =
      static_cast<double>(first - sorted.begin()) + 0.5 * static_cast<double>(last - first);
  const double limit = 1.5;
  return std::clamp(normal_quantile(below / static_cast<double>(sorted.size())), -limit, limit);
}

Estimate estimate(Figure value, std::vector<double> draws, double level) {
  const std::size_t resamples = draws.size();
  std::erase_if(draws, [](double draw) { return std::isnan(draw); });
  Estimate result{std::move(value), {}, {}};
  if (!result.value.defined() || draws.empty() || draws.size() * 2 < resamples) {
    const std::string why = concat("defined in ", draws.size(), " of ", resamples, " resamples");
    result.low = result.high = Figure::none(why);
    return result;
  }
  std::ranges::sort(draws);
  const double shift = 2 * median_bias(draws, result.value.value);
  const double z = normal_quantile((1 + level) / 2);
  result.low = Figure::of(quantile(draws, normal_share(shift - z)));
  result.high = Figure::of(quantile(draws, normal_share(shift + z)));
  return result;
}

// The mean of the defined ones, or the first one's reason.
Figure mean_figure(const std::vector<Figure>& figures) {
  const double mean = mean_defined(values(figures));
  if (!std::isnan(mean)) return Figure::of(mean);
  return Figure::none(figures.empty() ? "no folds" : figures.front().undefined);
}

std::vector<double> minus(std::span<const double> a, std::span<const double> b) {
  std::vector<double> result(a.begin(), a.end());
  for (std::size_t i = 0; i < result.size(); ++i) result[i] -= b[i];
  return result;
}

std::vector<Figure> minus(const std::vector<Figure>& a, const std::vector<Figure>& b) {
  std::vector<Figure> result;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!a[i].defined() || !b[i].defined()) {
      result.push_back(a[i].defined() ? b[i] : a[i]);
    } else {
      result.push_back(Figure::of(a[i].value - b[i].value));
    }
  }
  return result;
}

// Position by position; NaN, or the first reason, where one of the rows has no value.
std::vector<double> mean_of_all(const std::vector<std::vector<double>>& rows) {
  std::vector<double> mean(rows.front().size(), 0.0);
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += row[i];
  }
  for (double& value : mean) value /= static_cast<double>(rows.size());
  return mean;
}

std::vector<Figure> mean_of_all(const std::vector<std::vector<Figure>>& rows) {
  std::vector<std::vector<double>> numbers;
  for (const auto& row : rows) numbers.push_back(values(row));
  std::vector<Figure> result;
  for (double mean : mean_of_all(numbers)) result.push_back(Figure::of(mean));
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < result.size(); ++i) {
      if (result[i].defined() && !row[i].defined()) result[i] = row[i];
    }
  }
  return result;
}

}  // namespace

std::vector<std::uint32_t> draw_patients(const std::vector<std::vector<std::size_t>>& strata,
                                         std::size_t count, std::uint64_t seed,
                                         std::uint64_t resample) {
  std::vector<std::uint32_t> drawn(count, 0);
  for (std::size_t s = 0; s < strata.size(); ++s) {
    CounterRandom random({seed, resample, s});
    for (std::size_t i = 0; i < strata[s].size(); ++i) {
      ++drawn[strata[s][random.below(strata[s].size())]];
    }
  }
  return drawn;
}

MetricTable resample_metrics(std::span<const FoldScores> folds, const BootstrapOptions& options) {
  MetricTable table;
  table.level = options.level;
  if (folds.empty()) return table;
  const auto metrics = metrics_for(folds.front().exams.classes, folds.front().exams.scale);
  table.metrics.assign(metrics.begin(), metrics.end());
  std::vector<FoldScores> sorted;
  for (const FoldScores& fold : folds) sorted.push_back(sorted_by_score(fold));
  const std::size_t patients = patient_count(folds);
  const Samples as_they_are = samples_of(sorted, std::vector<std::uint32_t>(patients, 1));
  table.per_fold = figures(as_they_are.fold);
  table.pooled = figures(as_they_are.pooled);
  const auto strata = strata_of(folds);
  for (std::size_t r = 0; r < options.resamples; ++r) {
    const Samples samples = samples_of(sorted, draw_patients(strata, patients, options.seed, r));
    const auto fold = figures(samples.fold), pooled = figures(samples.pooled);
    auto& rows = table.resampled.emplace_back();
    for (std::size_t m = 0; m < metrics.size(); ++m) {
      rows.push_back({values(fold[m]), values(pooled[m])});
    }
  }
  return table;
}

std::vector<MetricSummary> summarize(const MetricTable& table) {
  std::vector<MetricSummary> result;
  for (std::size_t m = 0; m < table.metrics.size(); ++m) {
    std::vector<double> means, pooled;
    for (const auto& rows : table.resampled) {
      means.push_back(mean_defined(rows[m].fold));
      pooled.push_back(mean_defined(rows[m].pooled));
    }
    MetricSummary summary;
    summary.metric = table.metrics[m];
    summary.mean_over_folds = estimate(mean_figure(table.per_fold[m]), means, table.level);
    summary.pooled = estimate(mean_figure(table.pooled[m]), pooled, table.level);
    summary.sd_over_folds = sd_defined(values(table.per_fold[m]));
    summary.per_fold = table.per_fold[m];
    result.push_back(std::move(summary));
  }
  return result;
}

MetricTable macro_table(std::span<const MetricTable> targets) {
  const MetricTable& first = targets.front();
  MetricTable macro;
  macro.level = first.level;
  for (std::size_t m = 0; m < first.metrics.size(); ++m) {
    if (first.metrics[m] != Metric::kAuroc && first.metrics[m] != Metric::kAuprc) continue;
    macro.metrics.push_back(first.metrics[m]);
    std::vector<std::vector<Figure>> fold, pooled;
    for (const MetricTable& target : targets) {
      fold.push_back(target.per_fold[m]);
      pooled.push_back(target.pooled[m]);
    }
    macro.per_fold.push_back(mean_of_all(fold));
    macro.pooled.push_back(mean_of_all(pooled));
    macro.resampled.resize(first.resampled.size());
    for (std::size_t r = 0; r < first.resampled.size(); ++r) {
      std::vector<std::vector<double>> folds_drawn, pooled_drawn;
      for (const MetricTable& target : targets) {
        folds_drawn.push_back(target.resampled[r][m].fold);
        pooled_drawn.push_back(target.resampled[r][m].pooled);
      }
      macro.resampled[r].push_back({mean_of_all(folds_drawn), mean_of_all(pooled_drawn)});
    }
  }
  return macro;
}

std::vector<PairedDifference> paired_differences(const MetricTable& a, const MetricTable& b) {
  assert(a.metrics == b.metrics && a.resampled.size() == b.resampled.size());
  std::vector<PairedDifference> result;
  for (std::size_t m = 0; m < a.metrics.size(); ++m) {
    std::vector<double> means, pooled;
    for (std::size_t r = 0; r < a.resampled.size(); ++r) {
      means.push_back(mean_defined(minus(a.resampled[r][m].fold, b.resampled[r][m].fold)));
      pooled.push_back(mean_defined(minus(a.resampled[r][m].pooled, b.resampled[r][m].pooled)));
    }
    result.push_back({a.metrics[m],
                      estimate(mean_figure(minus(a.per_fold[m], b.per_fold[m])), means, a.level),
                      estimate(mean_figure(minus(a.pooled[m], b.pooled[m])), pooled, a.level)});
  }
  return result;
}

}  // namespace coldframe::temporal

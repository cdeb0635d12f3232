#include "train_temporal/evaluate/intervals.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "common/text/text.h"
#include "common/threads/counter_random.h"
#include "common/threads/threads.h"
#include "train_temporal/evaluate/bounds.h"

namespace coldframe::temporal {

namespace {

void append(FoldScores& to, const FoldScores& from) {
  const auto add = [](auto& values, const auto& more) {
    values.insert(values.end(), more.begin(), more.end());
  };
  add(to.exams.predicted, from.exams.predicted);
  add(to.exams.label, from.exams.label);
  add(to.exams.decision, from.exams.decision);
  add(to.exams.number, from.exams.number);
  add(to.exams.frame, from.exams.frame);
  add(to.patient, from.patient);
}

}  // namespace

ScoredExams exams_at(const ScoredExams& from, std::span<const std::size_t> rows) {
  ScoredExams taken;
  const std::size_t width = taken.width = from.width;
  taken.scale = from.scale;
  taken.horizons = from.horizons;
  taken.per_frame = from.per_frame;
  for (std::size_t i : rows) {
    const auto row = from.predicted.begin() + static_cast<std::ptrdiff_t>(i * width);
    taken.predicted.insert(taken.predicted.end(), row, row + static_cast<std::ptrdiff_t>(width));
    taken.label.push_back(from.label[i]);
    taken.decision.push_back(from.decision[i]);
    if (!from.number.empty()) taken.number.push_back(from.number[i]);
    if (!from.frame.empty()) taken.frame.push_back(from.frame[i]);
  }
  return taken;
}

std::vector<FoldScores> pooled_by_repeat(std::span<const FoldScores> folds) {
  std::vector<FoldScores> pooled;
  for (const FoldScores& fold : folds) {
    if (pooled.empty() || pooled.back().repeat != fold.repeat)
      pooled.push_back({fold.repeat, fold.fold, fold.exams, fold.patient});
    else
      append(pooled.back(), fold);
  }
  return pooled;
}

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::vector<double> values(const std::vector<MetricValue>& figures) {
  std::vector<double> result;
  for (const MetricValue& figure : figures) result.push_back(figure.value);
  return result;
}

double squared(double x) {
  return x * x;
}

double sd_defined(std::span<const double> numbers) {
  const double mean = mean_defined(numbers);
  double sum = 0, count = 0;
  for (double number : numbers) {
    if (std::isnan(number)) continue;
    sum += squared(number - mean);
    count += 1;
  }
  return count > 1 ? std::sqrt(sum / (count - 1)) : kNan;
}

// The mean of the defined ones, or the first one's reason.
MetricValue mean_figure(const std::vector<MetricValue>& figures) {
  const double mean = mean_defined(values(figures));
  if (!std::isnan(mean)) return MetricValue::of(mean);
  return MetricValue::none(figures.empty() ? "no folds" : figures.front().undefined);
}

std::vector<MetricValue> minus(const std::vector<MetricValue>& a,
                               const std::vector<MetricValue>& b) {
  std::vector<MetricValue> result;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!a[i].defined() || !b[i].defined()) {
      result.push_back(a[i].defined() ? b[i] : a[i]);
    } else {
      result.push_back(MetricValue::of(a[i].value - b[i].value));
    }
  }
  return result;
}

const std::vector<MetricValue>& figures_of(const MetricTable& table, std::size_t m,
                                           Aggregation taken) {
  return taken == Aggregation::kOverFolds ? table.per_fold[m] : table.pooled[m];
}

// Large losses are rare, so that a sample shows less skewness than there is (Cox 2010, Speaking
// Stata: the limits of sample skewness and kurtosis; Bono et al. 2020, Bias, precision, and
// accuracy of skewness and kurtosis estimators): with so much more, intervals of few patients hold
// the truth often enough (interval_coverage). Models that are compared would share what is unseen.
constexpr double kUnseenSkewness = 1;

Estimate estimate_of(const MetricTable& table, std::size_t m, Aggregation taken,
                     double unseen_skewness = 0) {
  Estimate result{mean_figure(figures_of(table, m, taken)), {}, {}};
  result.low = result.high = result.value;
  if (!result.value.defined()) return result;
  const double value = result.value.value;
  Spread spread = spread_of(table, m, taken, changes_of(table, m, taken, value));
  spread.skewness += unseen_skewness / std::sqrt(static_cast<double>(spread.units));
  if (std::isnan(spread.variance)) {
    result.low = result.high = MetricValue::none(
        "too small a sample to bound: it is undefined without one of the patients");
    return result;
  }
  const Bounds bounds = bounds_of(table.metrics[m], value, spread, table.level);
  const Bounds claimed = bounds_of(table.metrics[m], value, spread, kClaimLevel);
  return {result.value, bounds.low, bounds.high, claimed.low.value, claimed.high.value};
}

std::string too_coarse(const MetricTable& table, std::size_t m, Aggregation taken) {
  const std::size_t units = units_of(table, m, taken);
  const std::size_t least = table.metrics[m]->min_in_differences;
  if (units >= least) return {};
  return too_small_a_sample(units, /*are_pairs=*/false, least);
}

// Decisions, and few ranks, may coincide by chance; all metrics coincide only for the same model.
bool are_the_same(const MetricTable& a, const MetricTable& b) {
  const auto equal = [](const MetricValue& x, const MetricValue& y) {
    return x.value == y.value || (!x.defined() && !y.defined());
  };
  return std::ranges::equal(a.pooled, b.pooled, [&](const auto& x, const auto& y) {
    return std::ranges::equal(x, y, equal);
  });
}

double reach_of(const FitSpread& fits, double level) {
  return student_quantile((1 + level) / 2, fits.freedom) * std::sqrt(fits.variance);
}

// With the errors of both, and of fits, as independent ones.
void bound_by_parts(Estimate& difference, const Estimate& x, const Estimate& y,
                    const FitSpread& fits, double most, double level) {
  const double d = difference.value.value, a = x.value.value, b = y.value.value;
  const auto reach = [&](double of_x, double of_y, double of) {
    return std::hypot(of_x, of_y, reach_of(fits, of));
  };
  const auto possible = [&](double bound) { return std::clamp(bound, -most, most); };
  difference.low = MetricValue::of(possible(d - reach(a - x.low.value, y.high.value - b, level)));
  difference.high = MetricValue::of(possible(d + reach(x.high.value - a, b - y.low.value, level)));
  difference.claim_low = possible(d - reach(a - x.claim_low, y.claim_high - b, kClaimLevel));
  difference.claim_high = possible(d + reach(x.claim_high - a, b - y.claim_low, kClaimLevel));
}

// No patient tells the models apart: as far as so many exclude that another does, and fits differ.
void bound_by_agreement(Estimate& difference, Shape shape, const Spread& patients,
                        const FitSpread& fits, double most, double level) {
  const double scale = shape == Shape::kSigned ? 2 : 1, d = difference.value.value;
  const auto reach = [&](double of) {
    return std::hypot(scale * (1 - share_bounds(1, patients, of).low.value), reach_of(fits, of));
  };
  const auto possible = [&](double bound) { return std::clamp(bound, -most, most); };
  difference.low = MetricValue::of(possible(d - reach(level)));
  difference.high = MetricValue::of(possible(d + reach(level)));
  difference.claim_low = possible(d - reach(kClaimLevel));
  difference.claim_high = possible(d + reach(kClaimLevel));
}

// Of a − b.
Influences minus(Influences a, const Influences& b) {
  std::ranges::transform(a.by, b.by, a.by.begin(), std::minus{});
  return a;
}

// What the jackknife finds of the variance between fits of their mean: that of fits which differ in
// how they take these patients only. 0 where it is not known of each patient.
double variance_by_patient(const FiguresOfFits& a, const FiguresOfFits& b) {
  std::vector<Influences> changes;
  for (std::size_t fit = 0; fit < a.changes.size(); ++fit) {
    if (a.changes[fit].by.size() != a.changes[0].by.size()) return 0;
    changes.push_back(minus(a.changes[fit], b.changes[fit]));
  }
  const auto n = static_cast<double>(changes.size());
  double sum = 0;
  for (std::size_t patient = 0; patient < changes.front().by.size(); ++patient) {
    double mean = 0;
    for (const Influences& fit : changes) mean += fit.by[patient] / n;
    for (const Influences& fit : changes) sum += squared(fit.by[patient] - mean);
  }
  return std::isnan(sum) ? 0 : sum / (n - 1) / n;
}

// Of a − b, beyond what patients explain. The degrees of freedom are Satterthwaite's, since parts
// differ in their variance. With fewer than two, Student's quantile says nothing: unknown. What is
// left of the variance is as uncertain as all of it, and so has fewer.
std::optional<FitSpread> spread_of_fits(const FiguresOfFits& a, const FiguresOfFits& b) {
  double variance = 0, parts = 0, all = 0, of_variance = 0;
  if (a.changes.size() != b.changes.size()) return {};
  for (std::size_t part = 0; part < std::min(a.figures.size(), b.figures.size()); ++part) {
    std::vector<double> ahead;
    std::ranges::transform(a.figures[part], b.figures[part], std::back_inserter(ahead),
                           std::minus{});
    const auto n = static_cast<double>(ahead.size());
    if (n < 2 || std::ranges::any_of(ahead, [](double one) { return std::isnan(one); })) continue;
    const double of_part = squared(sd_defined(ahead)) / n;
    variance += of_part;
    of_variance += of_part * of_part / (n - 1);
    all += n - 1;
    parts += 1;
  }
  const double freedom = of_variance > 0 ? variance * variance / of_variance : all;
  if (parts == 0 || freedom < 2) return {};
  const double of_mean = variance / (parts * parts);
  const double beyond = std::max(of_mean - variance_by_patient(a, b), 0.0);
  return FitSpread{beyond, of_mean > 0 ? freedom * squared(beyond / of_mean) : freedom};
}

// Few patients contradict such a figure, or none: the other model's alone do not tell how far the
// two may differ.
bool is_at_the_end(Metric metric, const Estimate& figure) {
  const MetricRange range = range_of(metric);
  const double value = figure.value.value;
  return metric->shape != Shape::kBelowOne && (value >= range.high || value <= range.low);
}

// Two of one constant score are known to rank no exam.
bool are_both_exact(const Estimate& x, const Estimate& y) {
  return x.low.value == x.high.value && y.low.value == y.high.value;
}

Estimate difference_of(const MetricTable& a, const MetricTable& b, std::size_t m, Aggregation taken,
                       const std::optional<FitSpread>& fits) {
  const Estimate x = estimate_of(a, m, taken), y = estimate_of(b, m, taken);
  Estimate result{mean_figure(minus(figures_of(a, m, taken), figures_of(b, m, taken))), {}, {}};
  result.low = result.high = result.value;
  if (!result.value.defined()) return result;
  if (fits) result.error_of_fits = std::sqrt(fits->variance);
  result.low = result.high = x.low.defined() ? y.low : x.low;
  if (const std::string why = too_coarse(a, m, taken); !why.empty()) {
    result.low = result.high = MetricValue::none(why);
  }
  if (!result.low.defined()) return result;
  const Influences dx = changes_of(a, m, taken, x.value.value);
  const Influences changes = minus(dx, changes_of(b, m, taken, y.value.value));
  const Spread patients = spread_of(a, m, taken, changes);
  const Shape shape = a.metrics[m]->shape;
  const double d = result.value.value, most = largest_difference(a.metrics[m]);
  const FitSpread of_fits = fits.value_or(FitSpread{});
  if (is_at_the_end(a.metrics[m], x) || is_at_the_end(a.metrics[m], y)) {
    bound_by_parts(result, x, y, of_fits, most, a.level);
  } else if (patients.variance > 0) {
    const auto bounds = [&](double level) {
      return difference_bounds(d, patients, of_fits, most, level);
    };
    const Bounds usual = bounds(a.level), claimed = bounds(kClaimLevel);
    result.low = usual.low;
    result.high = usual.high;
    result.claim_low = claimed.low.value;
    result.claim_high = claimed.high.value;
  } else if (are_both_exact(x, y) || (covariance(dx, dx) > 0 && are_the_same(a, b))) {
    result.low = result.high = result.value;
    result.claim_low = result.claim_high = d;
  } else if (shape == Shape::kShare || shape == Shape::kSigned) {
    bound_by_agreement(result, shape, patients, of_fits, most, a.level);
  } else {
    bound_by_parts(result, x, y, of_fits, most, a.level);
  }
  if (is_any_value({result.low, result.high}, {-most, most})) {
    result.low = result.high =
        MetricValue::none(of_fits.variance > patients.variance
                              ? "fits differ too much to bound it"
                              : too_small_a_sample(patients.units, patients.are_pairs));
    result.claim_low = result.claim_high = kNan;
  }
  return result;
}

Estimate not_over_folds() {
  const MetricValue none = MetricValue::none("taken from all folds together");
  return {none, none, none};
}

bool over_folds(const MetricTable& table, std::size_t m) {
  return table.metrics[m]->over_folds;
}

// Both models of a difference have the same labels, and so the same folds.
bool most_folds_have_it(const MetricTable& table, std::size_t m) {
  const auto defined = std::ranges::count_if(table.per_fold[m], &MetricValue::defined);
  return over_folds(table, m) && defined > 0 &&
         2 * static_cast<std::size_t>(defined) >= table.per_fold[m].size();
}

}  // namespace

std::vector<MetricSummary> summarize(const MetricTable& table) {
  std::vector<MetricSummary> result;
  for (std::size_t m = 0; m < table.metrics.size(); ++m) {
    MetricSummary& summary = result.emplace_back();
    summary.metric = table.metrics[m];
    summary.mean_over_folds =
        over_folds(table, m) ? estimate_of(table, m, Aggregation::kOverFolds) : not_over_folds();
    summary.pooled = estimate_of(table, m, Aggregation::kPooled, kUnseenSkewness);
    summary.over_classes_present = table.over_classes_present[m];
    summary.sd_over_folds = sd_defined(values(table.per_fold[m]));
    summary.per_fold = table.per_fold[m];
    summary.by_fold = most_folds_have_it(table, m);
  }
  return result;
}

std::size_t MetricSummary::folds_with_it() const {
  return static_cast<std::size_t>(std::ranges::count_if(per_fold, &MetricValue::defined));
}

std::vector<PairedDifference> paired_differences(const MetricTable& a, const MetricTable& b,
                                                 std::span<const MetricOfFits> fits_of_a,
                                                 std::span<const MetricOfFits> fits_of_b) {
  assert(a.metrics == b.metrics && a.blocks.size() == b.blocks.size());
  std::vector<PairedDifference> result;
  for (std::size_t m = 0; m < a.metrics.size(); ++m) {
    PairedDifference& difference = result.emplace_back();
    difference.metric = a.metrics[m];
    const auto bounded = [&](Aggregation taken, FiguresOfFits MetricOfFits::*of) {
      if (m >= fits_of_a.size() || m >= fits_of_b.size()) return difference_of(a, b, m, taken, {});
      return difference_of(a, b, m, taken, spread_of_fits(fits_of_a[m].*of, fits_of_b[m].*of));
    };
    difference.mean_over_folds = over_folds(a, m)
                                     ? bounded(Aggregation::kOverFolds, &MetricOfFits::over_folds)
                                     : not_over_folds();
    difference.pooled = bounded(Aggregation::kPooled, &MetricOfFits::pooled);
    difference.by_fold = most_folds_have_it(a, m);
  }
  return result;
}

Estimate unpaired_difference(const Estimate& a, const Estimate& b) {
  Estimate result{minus({a.value}, {b.value}).front(), {}, {}};
  result.low = result.high = !result.value.defined() ? result.value
                             : a.low.defined()       ? b.low
                                                     : a.low;
  // No fits, which alone depend on the level, and no difference beyond what is possible.
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (result.low.defined()) bound_by_parts(result, a, b, {}, kInfinity, kClaimLevel);
  return result;
}

namespace {

struct Share {
  std::size_t patients = 0;
  double variance = 0, freedom = 0;
};

double sum_of_powers(const std::vector<double>& x, int power) {
  double sum = 0;
  for (double each : x) sum += std::pow(each, power);
  return sum;
}

void add_shape(Spread& spread, const std::vector<double>& change) {
  const auto n = static_cast<double>(change.size());
  const double squares = spread.variance;
  if (n < 3 || !(squares > 0)) return;
  spread.skewness =
      -sum_of_powers(change, 3) / std::pow(squares, 1.5) * std::sqrt(n * (n - 1)) / (n - 2);
  const double kurtosis = n * sum_of_powers(change, 4) / (squares * squares);
  spread.freedom_of_variance = 2 / (kurtosis / n - (n - 3) / (n * (n - 1)));
}

std::size_t rarest_class(const MetricTable& table) {
  return *std::ranges::min_element(table.patients_of_class);
}

bool are_pairs(const MetricTable& table, std::size_t m, Aggregation taken) {
  return table.metrics[m]->units == Units::kPairs && taken == Aggregation::kOverFolds;
}

// Twice the harmonic mean of the sizes of two classes counts for a figure of both.
double trials_of(const MetricTable& table, std::size_t m, std::size_t units) {
  const auto counts = static_cast<double>(units);
  const Units kind = table.metrics[m]->units;
  const bool of_units = table.patients_of_class.empty() || units == table.patients ||
                        kind == Units::kPositives || kind == Units::kNegatives ||
                        kind == Units::kEvents || kind == Units::kDecided;
  if (of_units) return counts;
  const auto rare = static_cast<double>(rarest_class(table));
  const auto all = static_cast<double>(table.patients);
  return std::max(4 * rare * (all - rare) / all, rare);
}

// So many units for all parts together, those with few of their own first.
void set_apart(std::vector<Spread::Part>& parts, double units) {
  std::ranges::sort(parts, {}, &Spread::Part::units);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    parts[i].apart = std::min(parts[i].units, units / static_cast<double>(parts.size() - i));
    units -= parts[i].apart;
  }
}

// Of each class, or target, of a mean of them.
std::vector<Spread::Part> parts_of(const MetricTable& table, std::size_t m, Aggregation taken) {
  const bool ranks = table.metrics[m]->units == Units::kPairs;
  const auto& [over_folds, pooled] = table.by_class[m];
  std::vector<Spread::Part> parts;
  for (const double value : taken == Aggregation::kOverFolds ? over_folds : pooled) {
    const std::size_t c = parts.size();
    const std::size_t units = are_pairs(table, m, taken) ? table.pairs_of_class[c]
                              : ranks                    ? table.pooled_pairs_of_class[c]
                                                         : table.patients_of_class[c];
    parts.push_back({value, static_cast<double>(units), 0});
  }
  // A pair of patients speaks of one target. Of K classes, a patient that is taken for another one
  // speaks against both, and so as much as K / (K − 1) of one.
  const auto n = static_cast<double>(parts.size()), patients = static_cast<double>(table.patients);
  set_apart(parts, !ranks ? patients : table.of_targets ? patients / 2 : patients * (n - 1) / n);
  return parts;
}

}  // namespace

double mean_defined(std::span<const double> numbers) {
  double sum = 0, count = 0;
  for (double number : numbers) {
    if (std::isnan(number)) continue;
    sum += number;
    count += 1;
  }
  return count > 0 ? sum / count : std::numeric_limits<double>::quiet_NaN();
}

Influences changes_of(const MetricTable& table, std::size_t m, Aggregation taken, double value) {
  struct Sum {
    double n = 0, change = 0;
  };
  Influences changes;
  std::map<std::pair<std::size_t, int>, Sum> strata;
  for (const MetricTable::Block& block : table.blocks) {
    if (block.of_class < 0) continue;
    const MetricTable::Row& row = block.without[m];
    changes.by.push_back(mean_defined(taken == Aggregation::kOverFolds ? row.fold : row.pooled) -
                         value);
    changes.stratum.emplace_back(taken == Aggregation::kOverFolds ? block.fold : 0,
                                 table.metrics[m]->given_classes ? block.of_class : 0);
    Sum& sum = strata[changes.stratum.back()];
    sum.n += 1;
    sum.change += changes.by.back();
  }
  for (std::size_t i = 0; i < changes.by.size(); ++i) {
    const auto& [n, change] = strata[changes.stratum[i]];
    if (n > 1) changes.by[i] = std::sqrt((n - 1) / n) * (changes.by[i] - change / n);
  }
  return changes;
}

double covariance(const Influences& a, const Influences& b) {
  return std::inner_product(a.by.begin(), a.by.end(), b.by.begin(), 0.0);
}

double freedom_of(const Influences& changes) {
  std::map<std::pair<std::size_t, int>, Share> strata;
  for (std::size_t i = 0; i < changes.by.size(); ++i) {
    Share& share = strata[changes.stratum[i]];
    ++share.patients;
    share.variance += changes.by[i] * changes.by[i];
  }
  std::map<int, Share> of_class;
  for (const auto& [stratum, share] : strata) {
    Share& one = of_class[stratum.second];
    one.variance += share.variance;
    one.freedom += std::max(static_cast<double>(share.patients) - 1, 1.0);
  }
  double variance = 0, freedom = 0, squares = 0;
  for (const auto& [of, one] : of_class) {
    variance += one.variance;
    freedom += one.freedom;
    squares += one.variance * one.variance / one.freedom;
  }
  return squares > 0 ? variance * variance / squares : freedom;
}

std::size_t units_of(const MetricTable& table, std::size_t m, Aggregation taken) {
  if (table.patients_of_class.empty()) return table.blocks.size();
  switch (table.metrics[m]->units) {
    case Units::kPositives:
    case Units::kEvents:
      return table.patients_of_class[1];
    case Units::kNegatives:
      return table.patients_of_class[0];
    case Units::kPatients:
      return table.patients;
    case Units::kDecided:
      return table.patients_decided;
    case Units::kPairs:
      if (are_pairs(table, m, taken)) return *std::ranges::min_element(table.pairs_of_class);
      break;
    case Units::kRarestClass:
      break;
  }
  return rarest_class(table);
}

Spread spread_of(const MetricTable& table, std::size_t m, Aggregation taken,
                 const Influences& changes) {
  Spread spread;
  spread.variance = covariance(changes, changes);
  spread.freedom = freedom_of(changes);
  spread.units = units_of(table, m, taken);
  spread.are_pairs = are_pairs(table, m, taken);
  spread.trials = trials_of(table, m, spread.units);
  spread.parts = parts_of(table, m, taken);
  spread.parts_may_agree = table.of_targets;
  add_shape(spread, changes.by);
  return spread;
}

namespace {

std::size_t patient_count(std::span<const FoldScores> folds) {
  std::size_t count = 0;
  for (const FoldScores& fold : folds) {
    for (std::size_t patient : fold.held_out()) count = std::max(count, patient + 1);
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
    for (std::size_t patient : fold.held_out()) {
      if (seen[patient]) continue;
      seen[patient] = true;
      (first_repeat ? strata.back() : late).push_back(patient);
    }
  }
  strata.push_back(std::move(late));
  for (auto& stratum : strata) std::ranges::sort(stratum);
  return strata;
}

// The exams of `fold`, each as often as its patient was drawn.
ScoredExams drawn_exams(const FoldScores& fold, std::span<const std::uint32_t> drawn) {
  std::vector<std::size_t> rows;
  for (std::size_t i = 0; i < fold.exams.size(); ++i)
    rows.insert(rows.end(), drawn[fold.patient[i]], i);
  return exams_at(fold.exams, rows);
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

std::vector<ScoredExams> resample_folds(std::span<const FoldScores> folds, std::uint64_t seed,
                                        std::uint64_t resample) {
  const auto drawn = draw_patients(strata_of(folds), patient_count(folds), seed, resample);
  std::vector<ScoredExams> result;
  for (const FoldScores& fold : folds) result.push_back(drawn_exams(fold, drawn));
  return result;
}

// Metrics with each patient left out.

namespace {

// The exams ordered by score, so that resamples of a binary task arrive sorted at the rank
// statistics.
FoldScores sorted_by_score(const FoldScores& fold) {
  if (fold.exams.width != 2) return fold;
  std::vector<std::size_t> order(fold.exams.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const bool finite =
      std::ranges::all_of(fold.exams.predicted, [](double p) { return std::isfinite(p); });
  if (finite) {
    std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
      return fold.exams.score(a, 1) > fold.exams.score(b, 1);
    });
  }
  FoldScores sorted{fold.repeat, fold.fold, exams_at(fold.exams, order), {}};
  for (std::size_t exam : order) sorted.patient.push_back(fold.patient[exam]);
  return sorted;
}

// The exams of `from` whose patients are not in `block`.
ScoredExams without(const FoldScores& from, const std::vector<std::size_t>& block_of,
                    std::size_t block) {
  std::vector<std::size_t> left;
  for (std::size_t i = 0; i < from.exams.size(); ++i) {
    if (block_of[from.patient[i]] != block) left.push_back(i);
  }
  return exams_at(from.exams, left);
}

// A patient's stratum: the fold that holds it out first, and the class of most of its exams.
struct Place {
  std::size_t fold = 0;
  std::map<int, std::size_t> exams;

  int of_class() const {
    const auto most =
        std::ranges::max_element(exams, {}, [](const auto& each) { return each.second; });
    return most == exams.end() ? -1 : most->first;
  }
};

std::map<std::size_t, Place> places_of(std::span<const FoldScores> folds) {
  std::map<std::size_t, Place> places;
  for (std::size_t f = 0; f < folds.size(); ++f) {
    for (std::size_t patient : folds[f].held_out()) places.try_emplace(patient, Place{f, {}});
    for (std::size_t i = 0; i < folds[f].exams.size(); ++i) {
      Place& place = places[folds[f].patient[i]];
      if (place.fold == f) ++place.exams[folds[f].exams.label[i]];
    }
  }
  return places;
}

// The held-out parts of one repeat are pooled. Parts are sorted, so that ranks need no sorting
// without a patient either.
struct Parts {
  std::vector<FoldScores> folds, pooled;

  explicit Parts(std::span<const FoldScores> given) : pooled(pooled_by_repeat(given)) {
    for (const FoldScores& fold : given) folds.push_back(sorted_by_score(fold));
    for (FoldScores& pool : pooled) pool = sorted_by_score(pool);
  }
  // A repeat with one fold is already pooled.
  bool are_pooled() const { return folds.size() == pooled.size(); }
};

std::vector<std::vector<MetricValue>> figures_of(const std::vector<FoldScores>& parts,
                                                 const std::vector<Metric>& metrics) {
  std::vector<std::vector<MetricValue>> all(metrics.size());
  for (const FoldScores& part : parts) {
    const std::vector<MetricValue> figures = compute_metrics(metrics, part.exams);
    for (std::size_t m = 0; m < metrics.size(); ++m) all[m].push_back(figures[m]);
  }
  return all;
}

std::vector<double> values_of(const std::vector<MetricValue>& figures) {
  std::vector<double> values;
  for (const MetricValue& figure : figures) values.push_back(figure.value);
  return values;
}

// Metrics without an interval are not computed without patients.
std::vector<std::size_t> bounded_of(const std::vector<Metric>& metrics) {
  std::vector<std::size_t> bounded;
  for (std::size_t m = 0; m < metrics.size(); ++m)
    if (metrics[m]->shape != Shape::kNone) bounded.push_back(m);
  return bounded;
}

// Writes the figures of the parts that hold exams of the block, without these.
void leave_out(MetricTable::Block& block, const Parts& parts, const std::vector<Metric>& metrics,
               const std::vector<std::size_t>& blocks, std::size_t number) {
  const auto holds = [&](const FoldScores& part) {
    return std::ranges::any_of(part.patient, [&](std::size_t p) { return blocks[p] == number; });
  };
  const std::vector<std::size_t> bounded = bounded_of(metrics);
  std::vector<Metric> computed;
  for (const std::size_t m : bounded) computed.push_back(metrics[m]);
  const auto write = [&](const std::vector<FoldScores>& from, auto member) {
    for (std::size_t part = 0; part < from.size(); ++part) {
      if (!holds(from[part])) continue;
      const auto figures = compute_metrics(computed, without(from[part], blocks, number));
      for (std::size_t i = 0; i < bounded.size(); ++i)
        (block.without[bounded[i]].*member)[part] = figures[i].value;
    }
  };
  write(parts.folds, &MetricTable::Row::fold);
  if (!parts.are_pooled()) return write(parts.pooled, &MetricTable::Row::pooled);
  for (MetricTable::Row& row : block.without) row.pooled = row.fold;
}

// See MetricTable::pairs_of_class and pooled_pairs_of_class. A patient with exams of the class and
// of others is a pair of its own.
std::size_t count_pairs(const std::map<std::size_t, Place>& places, std::size_t of_class,
                        Aggregation taken) {
  struct Count {
    std::size_t both = 0, this_class = 0, others = 0;
  };
  std::map<std::size_t, Count> in_fold;
  for (const auto& [patient, place] : places) {
    if (place.exams.empty()) continue;
    const bool has = place.exams.contains(static_cast<int>(of_class));
    Count& count = in_fold[taken == Aggregation::kOverFolds ? place.fold : 0];
    ++(has && place.exams.size() > 1 ? count.both : has ? count.this_class : count.others);
  }
  std::size_t pairs = 0;
  for (const auto& [fold, count] : in_fold)
    pairs += count.both + std::min(count.this_class, count.others);
  return pairs;
}

// See MetricTable::patients_decided.
std::size_t count_decided(std::span<const FoldScores> folds) {
  std::set<std::size_t> patients;
  for (const FoldScores& fold : folds)
    for (std::size_t i = 0; i < fold.exams.decision.size(); ++i)
      if (fold.repeat == folds.front().repeat && fold.exams.decision[i] == 1)
        patients.insert(fold.patient[i]);
  return patients.size();
}

// [part][class]
std::vector<std::vector<double>> figures_by_class(const std::vector<FoldScores>& parts,
                                                  Metric metric) {
  std::vector<std::vector<double>> all;
  for (const FoldScores& part : parts)
    all.push_back(values_of(compute_by_class(metric, part.exams)));
  return all;
}

std::vector<double> mean_of_each(const std::vector<std::vector<double>>& figures) {
  std::vector<double> means;
  for (std::size_t c = 0; c < figures.front().size(); ++c) {
    std::vector<double> of_class;
    for (const std::vector<double>& part : figures) of_class.push_back(part[c]);
    means.push_back(mean_defined(of_class));
  }
  return means;
}

void add_classes(MetricTable& table, const Parts& parts) {
  for (std::size_t m = 0; m < table.metrics.size(); ++m) {
    const auto over_folds = figures_by_class(parts.folds, table.metrics[m]);
    table.by_class.push_back(
        {mean_of_each(over_folds), mean_of_each(figures_by_class(parts.pooled, table.metrics[m]))});
    std::vector<double> present;
    for (const std::vector<double>& fold : over_folds) present.push_back(mean_defined(fold));
    const bool whole = std::ranges::all_of(table.per_fold[m], &MetricValue::defined);
    const double mean = mean_defined(present);
    table.over_classes_present.push_back(whole || std::isnan(mean)
                                             ? MetricValue::none("no fold lacks a class")
                                             : MetricValue::of(mean));
  }
}

}  // namespace

MetricTable leave_out_patients(std::span<const FoldScores> folds, double level,
                               std::span<const Metric> only, std::size_t most_blocks) {
  MetricTable table;
  table.level = level;
  if (folds.empty()) return table;
  const ScoredExams& first = folds.front().exams;
  table.metrics.assign(only.begin(), only.end());
  if (only.empty()) table.metrics = metrics_for(first);
  const Parts parts(folds);
  table.per_fold = figures_of(parts.folds, table.metrics);
  table.pooled = parts.are_pooled() ? table.per_fold : figures_of(parts.pooled, table.metrics);
  add_classes(table, parts);
  std::vector<MetricTable::Row> as_they_are;
  for (std::size_t m = 0; m < table.metrics.size(); ++m) {
    as_they_are.push_back({values_of(table.per_fold[m]), values_of(table.pooled[m])});
  }
  const auto places = places_of(folds);
  table.patients_of_class.assign(first.label_count(), 0);
  for (const auto& [patient, place] : places) {
    table.patients += !place.exams.empty();
    for (const auto& [of_class, exams] : place.exams) {
      ++table.patients_of_class[static_cast<std::size_t>(of_class)];
    }
  }
  table.patients_decided = count_decided(folds);
  for (std::size_t c = 0; c < first.label_count(); ++c) {
    table.pairs_of_class.push_back(count_pairs(places, c, Aggregation::kOverFolds));
    table.pooled_pairs_of_class.push_back(count_pairs(places, c, Aggregation::kPooled));
  }
  std::vector<std::size_t> block_of(places.empty() ? 0 : places.rbegin()->first + 1);
  std::size_t next = 0;
  for (const auto& [patient, place] : places) {
    block_of[patient] = next++ % most_blocks;
    if (block_of[patient] < table.blocks.size()) continue;
    const bool alone = places.size() <= most_blocks;
    table.blocks.push_back({alone ? place.fold : 0, alone ? place.of_class() : 0, as_they_are});
  }
  parallel_for(table.blocks.size(), [&](std::size_t b) {
    leave_out(table.blocks[b], parts, table.metrics, block_of, b);
  });
  return table;
}

// The mean of several targets' figures.

namespace {

// Position by position; NaN, or the first reason, where one of the rows has no value.
std::vector<double> mean_of_all(const std::vector<std::vector<double>>& rows) {
  std::vector<double> mean(rows.front().size(), 0.0);
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += row[i];
  }
  for (double& value : mean) value /= static_cast<double>(rows.size());
  return mean;
}

std::vector<MetricValue> mean_of_all(const std::vector<std::vector<MetricValue>>& rows) {
  std::vector<std::vector<double>> numbers;
  for (const auto& row : rows) {
    std::vector<double>& values = numbers.emplace_back();
    for (const MetricValue& figure : row) values.push_back(figure.value);
  }
  std::vector<MetricValue> result;
  for (double mean : mean_of_all(numbers)) result.push_back(MetricValue::of(mean));
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < result.size(); ++i) {
      if (result[i].defined() && !row[i].defined()) result[i] = row[i];
    }
  }
  return result;
}

}  // namespace

MetricTable macro_table(std::span<const MetricTable> targets) {
  const MetricTable& first = targets.front();
  MetricTable macro;
  macro.level = first.level;
  macro.of_targets = true;
  for (const MetricTable& target : targets) {
    macro.patients = std::max(macro.patients, target.patients);
    macro.pairs_of_class.push_back(*std::ranges::min_element(target.pairs_of_class));
    macro.pooled_pairs_of_class.push_back(*std::ranges::min_element(target.pooled_pairs_of_class));
    macro.patients_of_class.push_back(rarest_class(target));
  }
  for (const MetricTable::Block& block : first.blocks) macro.blocks.push_back({block.fold, 0, {}});
  for (std::size_t m = 0; m < first.metrics.size(); ++m) {
    if (!first.metrics[m]->over_targets) continue;
    macro.metrics.push_back(first.metrics[m]);
    std::vector<std::vector<MetricValue>> fold, pooled;
    for (const MetricTable& target : targets) {
      fold.push_back(target.per_fold[m]);
      pooled.push_back(target.pooled[m]);
    }
    macro.per_fold.push_back(mean_of_all(fold));
    macro.pooled.push_back(mean_of_all(pooled));
    macro.over_classes_present.push_back(MetricValue::none("targets of two classes"));
    MetricTable::ByClass& by_target = macro.by_class.emplace_back();
    for (const MetricTable& target : targets) {
      by_target.over_folds.push_back(mean_defined(values_of(target.per_fold[m])));
      by_target.pooled.push_back(mean_defined(values_of(target.pooled[m])));
    }
    for (std::size_t b = 0; b < first.blocks.size(); ++b) {
      std::vector<std::vector<double>> folds_left, pooled_left;
      for (const MetricTable& target : targets) {
        folds_left.push_back(target.blocks[b].without[m].fold);
        pooled_left.push_back(target.blocks[b].without[m].pooled);
      }
      macro.blocks[b].without.push_back({mean_of_all(folds_left), mean_of_all(pooled_left)});
    }
  }
  return macro;
}

namespace {

FiguresOfFits figures_of_tables(std::span<const MetricTable> fits, std::size_t m, Aggregation taken,
                                bool of_one_part) {
  FiguresOfFits all;
  for (const MetricTable& fit : fits) {
    const std::vector<double> figures = values(figures_of(fit, m, taken));
    const double mean = mean_defined(figures);
    all.figures.resize(of_one_part ? 1 : figures.size());
    for (std::size_t part = 0; part < all.figures.size(); ++part)
      all.figures[part].push_back(of_one_part ? mean : figures[part]);
    all.changes.push_back(changes_of(fit, m, taken, mean));
  }
  return all;
}

std::vector<std::vector<FoldScores>> repeats_of(std::span<const FoldScores> folds) {
  std::vector<std::vector<FoldScores>> repeats;
  for (const FoldScores& fold : folds) {
    if (repeats.empty() || repeats.back().back().repeat != fold.repeat) repeats.emplace_back();
    repeats.back().push_back(fold);
  }
  return repeats;
}

}  // namespace

std::vector<MetricOfFits> figures_of_fits(std::span<const FoldScores> folds,
                                          std::span<const std::vector<FoldScores>> fits,
                                          std::span<const Metric> only) {
  if (folds.empty()) return {};
  const std::vector<std::vector<FoldScores>> repeats =
      fits.empty() ? repeats_of(folds) : std::vector<std::vector<FoldScores>>();
  const std::span<const std::vector<FoldScores>> taken = fits.empty() ? repeats : fits;
  if (taken.size() < 2) return {};
  std::vector<MetricTable> tables;
  for (const std::vector<FoldScores>& fit : taken)
    tables.push_back(leave_out_patients(fit, 0.95, only));
  std::vector<MetricOfFits> all;
  for (std::size_t m = 0; m < tables.front().metrics.size(); ++m)
    all.push_back({figures_of_tables(tables, m, Aggregation::kOverFolds, fits.empty()),
                   figures_of_tables(tables, m, Aggregation::kPooled, fits.empty())});
  return all;
}

}  // namespace coldframe::temporal

#include "train_temporal/evaluate/intervals.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>

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
  return concat("too small a sample to bound: ", units, " patients, ", least, " needed");
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

double squared(double x) {
  return x * x;
}

// A difference reaches this far where its parts reach so far and are correlated by `r` (Zou and
// Donner 2008).
double joined(double of_x, double of_y, double r) {
  return std::sqrt(std::max(0.0, squared(of_x) - 2 * r * of_x * of_y + squared(of_y)));
}

// R² of both models divide by the same deviations, so that the difference is one ratio, and bounded
// by its own error.
void bound_by_itself(Estimate& difference, const Influences& x, const Influences& y, double level) {
  Influences changes = x;
  std::ranges::transform(x.by, y.by, changes.by.begin(), std::minus{});
  const double error = std::sqrt(covariance(changes, changes)), freedom = freedom_of(changes);
  const auto reach = [&](double of) { return error * student_quantile((1 + of) / 2, freedom); };
  const double d = difference.value.value;
  difference.low = MetricValue::of(d - reach(level));
  difference.high = MetricValue::of(d + reach(level));
  difference.claim_low = d - reach(kClaimLevel);
  difference.claim_high = d + reach(kClaimLevel);
}

// With the correlation from the jackknife.
void bound_by_parts(Estimate& difference, const Estimate& x, const Estimate& y, double r) {
  const double d = difference.value.value, a = x.value.value, b = y.value.value;
  difference.low = MetricValue::of(d - joined(a - x.low.value, y.high.value - b, r));
  difference.high = MetricValue::of(d + joined(x.high.value - a, b - y.low.value, r));
  difference.claim_low = d - joined(a - x.claim_low, y.claim_high - b, r);
  difference.claim_high = d + joined(x.claim_high - a, b - y.claim_low, r);
}

Estimate difference_of(const MetricTable& a, const MetricTable& b, std::size_t m,
                       Aggregation taken) {
  const Estimate x = estimate_of(a, m, taken), y = estimate_of(b, m, taken);
  Estimate result{mean_figure(minus(figures_of(a, m, taken), figures_of(b, m, taken))), {}, {}};
  result.low = result.high = result.value;
  if (!result.value.defined()) return result;
  result.low = result.high = x.low.defined() ? y.low : x.low;
  const Influences dx = changes_of(a, m, taken, x.value.value);
  const Influences dy = changes_of(b, m, taken, y.value.value);
  if (const std::string why = too_coarse(a, m, taken); !why.empty()) {
    result.low = result.high = MetricValue::none(why);
  }
  if (!result.low.defined()) return result;
  const double vx = covariance(dx, dx), vy = covariance(dy, dy);
  const double r = vx > 0 && vy > 0 ? covariance(dx, dy) / std::sqrt(vx * vy) : 0;
  const bool equal = vx > 0 && dx.by == dy.by && x.value.value == y.value.value;
  if (equal && are_the_same(a, b)) {
    result.low = result.high = result.value;
    result.claim_low = result.claim_high = result.value.value;
  } else if (a.metrics[m]->shape == Shape::kBelowOne) {
    bound_by_itself(result, dx, dy, a.level);
  } else {
    bound_by_parts(result, x, y, std::clamp(r, -1.0, 1.0));
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
    summary.sd_over_folds = sd_defined(values(table.per_fold[m]));
    summary.per_fold = table.per_fold[m];
    summary.by_fold = most_folds_have_it(table, m);
  }
  return result;
}

std::vector<PairedDifference> paired_differences(const MetricTable& a, const MetricTable& b) {
  assert(a.metrics == b.metrics && a.blocks.size() == b.blocks.size());
  std::vector<PairedDifference> result;
  for (std::size_t m = 0; m < a.metrics.size(); ++m) {
    PairedDifference& difference = result.emplace_back();
    difference.metric = a.metrics[m];
    difference.mean_over_folds =
        over_folds(a, m) ? difference_of(a, b, m, Aggregation::kOverFolds) : not_over_folds();
    difference.pooled = difference_of(a, b, m, Aggregation::kPooled);
    difference.by_fold = most_folds_have_it(a, m);
  }
  return result;
}

Estimate unpaired_difference(const Estimate& a, const Estimate& b) {
  Estimate result{minus({a.value}, {b.value}).front(), {}, {}};
  result.low = result.high = !result.value.defined() ? result.value
                             : a.low.defined()       ? b.low
                                                     : a.low;
  if (result.low.defined()) bound_by_parts(result, a, b, 0);
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
                        kind == Units::kEvents;
  if (of_units) return counts;
  const auto rare = static_cast<double>(rarest_class(table));
  const auto all = static_cast<double>(table.patients);
  return std::max(4 * rare * (all - rare) / all, rare);
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
    case Units::kPairs:
      if (are_pairs(table, m, taken)) return table.pairs;
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

// With more patients than these, groups of them are left out, so that the work grows only with the
// number of exams.
constexpr std::size_t kMaxBlocks = 1000;

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

// The class with the fewest pairs decides; see MetricTable::pairs. A patient with exams of the
// class and of others is a pair of its own.
std::size_t count_pairs(const std::map<std::size_t, Place>& places, std::size_t classes) {
  std::size_t least = places.size();
  for (std::size_t c = 0; c < classes; ++c) {
    struct Count {
      std::size_t both = 0, this_class = 0, others = 0;
    };
    std::map<std::size_t, Count> in_fold;
    for (const auto& [patient, place] : places) {
      if (place.exams.empty()) continue;
      const bool has = place.exams.contains(static_cast<int>(c));
      Count& count = in_fold[place.fold];
      ++(has && place.exams.size() > 1 ? count.both : has ? count.this_class : count.others);
    }
    std::size_t pairs = 0;
    for (const auto& [fold, count] : in_fold) {
      pairs += count.both + std::min(count.this_class, count.others);
    }
    least = std::min(least, pairs);
  }
  return least;
}

}  // namespace

MetricTable leave_out_patients(std::span<const FoldScores> folds, double level,
                               std::span<const Metric> only) {
  MetricTable table;
  table.level = level;
  if (folds.empty()) return table;
  const ScoredExams& first = folds.front().exams;
  table.metrics.assign(only.begin(), only.end());
  if (only.empty()) table.metrics = metrics_for(first);
  const Parts parts(folds);
  table.per_fold = figures_of(parts.folds, table.metrics);
  table.pooled = parts.are_pooled() ? table.per_fold : figures_of(parts.pooled, table.metrics);
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
  table.pairs = count_pairs(places, first.label_count());
  std::vector<std::size_t> block_of(places.empty() ? 0 : places.rbegin()->first + 1);
  std::size_t next = 0;
  for (const auto& [patient, place] : places) {
    block_of[patient] = next++ % kMaxBlocks;
    if (block_of[patient] < table.blocks.size()) continue;
    const bool alone = places.size() <= kMaxBlocks;
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
  macro.pairs = first.pairs;
  macro.patients = first.patients;
  macro.patients_of_class = {*std::ranges::min_element(first.patients_of_class)};
  for (const MetricTable& target : targets) {
    macro.pairs = std::min(macro.pairs, target.pairs);
    macro.patients_of_class[0] =
        std::min(macro.patients_of_class[0], *std::ranges::min_element(target.patients_of_class));
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

// Intervals of metrics and of differences, by patient and between fits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "train_temporal/evaluate/bounds.h"
#include "train_temporal/evaluate/intervals.h"
#include "train_temporal/evaluate/metric_table.h"
#include "train_temporal/evaluate/metrics.h"

namespace coldframe::temporal {

// The held-out exams of a fold, with subsets and unions of them.

// The held-out exams of one fold. Probabilities are already averaged over seeds: seeds are not
// samples.
struct FoldScores {
  std::size_t repeat = 0, fold = 0;
  ScoredExams exams;
  std::vector<std::size_t> patient;  // [N] any numbering that is consistent over folds and models
  // All patients whose exams the fold holds out, labelled or not. Empty: `patient`.
  std::vector<std::size_t> drawn_from = {};

  const std::vector<std::size_t>& held_out() const {
    return drawn_from.empty() ? patient : drawn_from;
  }
};

// The exams at `rows`, in that order, with repetitions.
ScoredExams exams_at(const ScoredExams& from, std::span<const std::size_t> rows);

// Pools the exams of all folds of each repeat.
std::vector<FoldScores> pooled_by_repeat(std::span<const FoldScores> folds);

// Intervals by patient, and paired differences between two models on the same patients.
//
// The jackknife over patients estimates the sampling variance of a metric (for AUROCs with one exam
// per patient it is the variance of DeLong et al. 1988). It is stratified by class (and by fold, if
// a metric is a mean over folds), so that small folds do not make intervals too narrow, as
// bootstrap resamples of them do. bounds.h turns the variance into intervals.

// The interval level for claims, of which a report makes several at once.
inline constexpr double kClaimLevel = 0.99;

struct Estimate {
  MetricValue value;
  MetricValue low, high;  // undefined, with the reason, if nothing bounds the value
  // The same at kClaimLevel; NaN if nothing bounds the value.
  double claim_low = std::numeric_limits<double>::quiet_NaN();
  double claim_high = std::numeric_limits<double>::quiet_NaN();
  // Of differences, see include_fits(): the standard error between fits, in addition to patients;
  // NaN with a single fit.
  double error_of_fits = std::numeric_limits<double>::quiet_NaN();
};

struct MetricSummary {
  Metric metric = nullptr;
  Estimate mean_over_folds;           // over the folds in which it is defined
  Estimate pooled;                    // of all exams of a repeat, averaged over repeats
  double sd_over_folds = 0;           // n − 1; NaN with fewer than two folds
  std::vector<MetricValue> per_fold;  // in the order of the folds given
  // True if mean_over_folds is to be reported: MetricRow::over_folds is set and at least half of
  // the folds have a value.
  bool by_fold = false;

  const Estimate& primary() const { return by_fold ? mean_over_folds : pooled; }
};

// Every metric in every fold and repeat, on all data and with each patient left out. NaN if
// undefined.
struct MetricTable {
  struct Row {                   // of one metric
    std::vector<double> fold;    // in the order of the folds given
    std::vector<double> pooled;  // one per repeat
  };
  struct Block {               // one patient, or a group if there are very many
    std::size_t fold = 0;      // of the first repeat, among the folds given
    int of_class = 0;          // the class of most of its exams; −1: it has no exams here
    std::vector<Row> without;  // [metric]
  };
  std::vector<Metric> metrics;
  std::vector<std::vector<MetricValue>> per_fold;  // [metric][fold]
  std::vector<std::vector<MetricValue>> pooled;    // [metric][repeat]
  std::vector<Block> blocks;
  std::vector<std::size_t> patients_of_class;  // patients with exams of the class; for numbers: all
  std::size_t patients = 0;                    // patients with labelled exams
  // Number of disjoint pairs, within folds, of a patient of one class and one of the others, for
  // the class with the fewest: the basis of an AUROC of 1.
  std::size_t pairs = 0;
  double level = 0.95;
};

// `only`: the metrics to compute; empty: metrics_for() these exams.
MetricTable leave_out_patients(std::span<const FoldScores> folds, double level = 0.95,
                               std::span<const Metric> only = {});

std::vector<MetricSummary> summarize(const MetricTable& table);

// The mean over several targets of the same exams: macro AUROC and AUPRC of binary targets.
// Undefined if it is so for one target, as in scikit-learn. The tables must come from the same
// folds.
MetricTable macro_table(std::span<const MetricTable> targets);

// a − b, fold by fold. Both tables must come from the same held-out exams in the same folds. The
// interval combines those of a and b (MOVER: Zou and Donner 2008, after Newcombe 1998), so that it
// is meaningful even if one of them is perfect.
struct PairedDifference {
  Metric metric = nullptr;
  Estimate mean_over_folds, pooled;
  bool by_fold = false;  // as in MetricSummary

  const Estimate& primary() const { return by_fold ? mean_over_folds : pooled; }
};
std::vector<PairedDifference> paired_differences(const MetricTable& a, const MetricTable& b);

// a − b of metrics on different patients, likewise.
Estimate unpaired_difference(const Estimate& a, const Estimate& b);

// The jackknife variance of a metric over patients.

// A metric is aggregated as the mean over folds, or pooled.
enum class Aggregation { kOverFolds, kPooled };

// By how much leaving out each patient changes a metric, relative to the mean of its stratum; a
// patient alone in its stratum is compared with the metric itself. The squares add up to the
// jackknife variance, (g − 1) / g · Σ (a − ā)² over the g patients of each stratum. NaN if the
// metric is undefined without one of the patients. Patients without exams here are left out.
struct Influences {
  std::vector<double> by;
  std::vector<std::pair<std::size_t, int>> stratum;  // fold (of means over folds), class
};
Influences changes_of(const MetricTable& table, std::size_t metric, Aggregation taken,
                      double value);
double covariance(const Influences& a, const Influences& b);
double freedom_of(const Influences& changes);  // of the variance: Satterthwaite's, over classes

double mean_defined(std::span<const double> numbers);  // NaN if none is defined

// The independent units on which a perfect metric rests: all patients, or those of the rarest class
// if each class counts separately.
std::size_t units_of(const MetricTable& table, std::size_t metric, Aggregation taken);

Spread spread_of(const MetricTable& table, std::size_t metric, Aggregation taken,
                 const Influences& changes);

// Bootstrap resamples of patients, for the bands around curves.

struct BootstrapOptions {
  std::size_t resamples = 2000;
  std::uint64_t seed = 0;
  double level = 0.95;
};

// How often each patient is drawn in one resample: count[p] by patient number. `strata`: the
// patients of each stratum.
std::vector<std::uint32_t> draw_patients(const std::vector<std::vector<std::size_t>>& strata,
                                         std::size_t patient_count, std::uint64_t seed,
                                         std::uint64_t resample);

// Resamples patients with replacement within the folds of the first repeat. Every repeat uses the
// same draw, since repeats are not new patients.
std::vector<ScoredExams> resample_folds(std::span<const FoldScores> folds, std::uint64_t seed,
                                        std::uint64_t resample);

// Fits of one model vary by chance, in addition to patients. A claim about a model, rather than
// about the given fits, must include this variance.

// The metric of each single fit, [part][fit]. A part is a fold, or the pooled folds of a repeat.
// NaN if undefined.
using FiguresOfFits = std::vector<std::vector<double>>;

struct MetricOfFits {
  FiguresOfFits over_folds, pooled;
};

// For every metric of `table`, which was made from `folds`. `fits`: [fit] the same folds, scored by
// a single fit each. Without them, repeats of the split count as fits of one part; empty with a
// single repeat.
std::vector<MetricOfFits> figures_of_fits(const MetricTable& table,
                                          std::span<const FoldScores> folds,
                                          std::span<const std::vector<FoldScores>> fits);

// Widens the intervals of a − b by the variance between fits. Averaged fits have the variance of a
// mean over the fits in each part, with Student's quantile; the half-widths from patients and from
// fits are combined as for independent terms of a sum (Zou and Donner 2008). No change if `a` and
// `b` differ in the number of fits, or have too few (less than two degrees of freedom).
void include_fits(std::vector<PairedDifference>& differences, const std::vector<MetricOfFits>& a,
                  const std::vector<MetricOfFits>& b, double level);

}  // namespace coldframe::temporal

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

// The held-out exams of a fold, and ways to take some of them or more of them together.

// The held-out exams of one fold. Probabilities of several seeds are averaged before: seeds are not
// samples.
struct FoldScores {
  std::size_t repeat = 0, fold = 0;
  ScoredExams exams;
  std::vector<std::size_t> patient;  // [N] any numbering that is the same in all folds and models
  // The patients whose exams the fold holds out, with or without a label. Empty: `patient`.
  std::vector<std::size_t> drawn_from = {};

  const std::vector<std::size_t>& held_out() const {
    return drawn_from.empty() ? patient : drawn_from;
  }
};

// The exams at `rows`, in that order, each as often as it is named.
ScoredExams exams_at(const ScoredExams& from, std::span<const std::size_t> rows);

// The exams of all folds together, one part for each repeat.
std::vector<FoldScores> pooled_by_repeat(std::span<const FoldScores> folds);

// Intervals by patient, and paired differences between two models on the same patients.
//
// How much a figure owes to chance among patients is told by leaving out each of them in turn (the
// jackknife; of AUROCs of one exam a patient it is the variance of DeLong et al. 1988). Patients
// are compared with those of their own class (and of their fold, where a figure is a mean over
// folds), so that small folds do not make intervals too narrow, as resamples of them do. bounds.h
// makes intervals of it.

// Claims, of which a report makes several at once, take intervals of this level.
inline constexpr double kClaimLevel = 0.99;

struct Estimate {
  MetricValue value;
  MetricValue low, high;  // undefined, with the reason, where nothing bounds the value
  // The same at kClaimLevel; NaN where nothing bounds the value.
  double claim_low = std::numeric_limits<double>::quiet_NaN();
  double claim_high = std::numeric_limits<double>::quiet_NaN();
  // Of differences, see include_fits(): the standard error by which fits differ beside patients;
  // NaN where there is one fit.
  double error_of_fits = std::numeric_limits<double>::quiet_NaN();
};

struct MetricSummary {
  Metric metric = nullptr;
  Estimate mean_over_folds;           // over the folds in which it is defined
  Estimate pooled;                    // of all exams of a repeat, averaged over repeats
  double sd_over_folds = 0;           // n − 1; NaN with fewer than two folds
  std::vector<MetricValue> per_fold;  // in the order of the folds given
  // Whether mean_over_folds is the figure to report: MetricRow::over_folds, and half of the folds
  // or more have one.
  bool by_fold = false;

  const Estimate& primary() const { return by_fold ? mean_over_folds : pooled; }
};

// The value of every metric in every fold and repeat, on the data as they are and without each
// patient. NaN where undefined.
struct MetricTable {
  struct Row {                   // of one metric
    std::vector<double> fold;    // in the order of the folds given
    std::vector<double> pooled;  // one per repeat
  };
  struct Block {               // one patient, or some of very many
    std::size_t fold = 0;      // of the first repeat, among the folds given
    int of_class = 0;          // the one of most of its exams; −1: it has none here
    std::vector<Row> without;  // [metric]
  };
  std::vector<Metric> metrics;
  std::vector<std::vector<MetricValue>> per_fold;  // [metric][fold]
  std::vector<std::vector<MetricValue>> pooled;    // [metric][repeat]
  std::vector<Block> blocks;
  std::vector<std::size_t> patients_of_class;  // that have exams of it; of numbers: all
  std::size_t patients = 0;                    // that have labelled exams
  // Disjoint pairs of patients of one class and of the others within folds, of the class with the
  // fewest: what an AUROC of 1 rests on.
  std::size_t pairs = 0;
  double level = 0.95;
};

// `only`: the metrics to compute; empty: metrics_for() these exams.
MetricTable leave_out_patients(std::span<const FoldScores> folds, double level = 0.95,
                               std::span<const Metric> only = {});

std::vector<MetricSummary> summarize(const MetricTable& table);

// The mean over several targets of the same exams: macro AUROC and AUPRC of binary targets.
// Undefined where it is for one of them, as in scikit-learn. The tables must come from the same
// folds.
MetricTable macro_table(std::span<const MetricTable> targets);

// a − b, fold by fold. Both tables must come from the same held-out exams in the same folds. The
// interval joins those of a and b (MOVER: Zou and Donner 2008, after Newcombe 1998), so that it
// means something where one of them is perfect.
struct PairedDifference {
  Metric metric = nullptr;
  Estimate mean_over_folds, pooled;
  bool by_fold = false;  // as in MetricSummary

  const Estimate& primary() const { return by_fold ? mean_over_folds : pooled; }
};
std::vector<PairedDifference> paired_differences(const MetricTable& a, const MetricTable& b);

// a − b of figures of different patients, likewise.
Estimate unpaired_difference(const Estimate& a, const Estimate& b);

// The variance that a figure owes to chance among patients, from leaving out each of them in turn.

// A figure is the mean over folds, or the pooled one.
enum class Aggregation { kOverFolds, kPooled };

// Each patient changes a figure by so much when left out, beside the others of the same stratum;
// one alone is compared with the figure itself. The squares add up to the jackknife's variance,
// (g − 1) / g · Σ (a − ā)² over the g patients of each stratum. NaN where the figure is undefined
// without one of the patients; those that have no exams here are left out.
struct Influences {
  std::vector<double> by;
  std::vector<std::pair<std::size_t, int>> stratum;  // fold (of means over folds), class
};
Influences changes_of(const MetricTable& table, std::size_t metric, Aggregation taken,
                      double value);
double covariance(const Influences& a, const Influences& b);
double freedom_of(const Influences& changes);  // of the variance: Satterthwaite's over classes

double mean_defined(std::span<const double> numbers);  // NaN where none is

// A perfect figure rests on all patients, or on those of the class that has the fewest where each
// class counts by itself.
std::size_t units_of(const MetricTable& table, std::size_t metric, Aggregation taken);

Spread spread_of(const MetricTable& table, std::size_t metric, Aggregation taken,
                 const Influences& changes);

// Bootstrap resamples of patients, for the bands around curves.

struct BootstrapOptions {
  std::size_t resamples = 2000;
  std::uint64_t seed = 0;
  double level = 0.95;
};

// Counts how often each patient is drawn in one resample: count[p] for every patient number, given
// the patients of each stratum.
std::vector<std::uint32_t> draw_patients(const std::vector<std::vector<std::size_t>>& strata,
                                         std::size_t patient_count, std::uint64_t seed,
                                         std::uint64_t resample);

// The folds with the exams of patients that are drawn with replacement within the folds of the
// first repeat; every repeat sees the same draw, as repeats are not new patients.
std::vector<ScoredExams> resample_folds(std::span<const FoldScores> folds, std::uint64_t seed,
                                        std::uint64_t resample);

// Fits of one model differ by chance beside patients: a claim about what a model finds, and not
// about the fits at hand, has to know by how much.

// The figures of several fits alone, [part][fit]. A part is a fold, or the folds of a repeat
// together; NaN where a figure is undefined.
using FiguresOfFits = std::vector<std::vector<double>>;

struct MetricOfFits {
  FiguresOfFits over_folds, pooled;
};

// Of every metric of the table, which is that of `folds`. `fits`: [fit] the same folds, as scored
// by each fit of a fold alone. Without these, repeats of the split are taken for fits of one part;
// empty where there is one repeat.
std::vector<MetricOfFits> figures_of_fits(const MetricTable& table,
                                          std::span<const FoldScores> folds,
                                          std::span<const std::vector<FoldScores>> fits);

// Takes into the intervals of a − b that the fits of both differ. The figure of averaged fits has
// the variance of the mean of so many fits in each part, with Student's quantile; the reaches of
// patients and of fits are joined as those of independent terms of a sum (Zou and Donner 2008).
// Leaves them as they are where `a` and `b` do not have the same number of fits, or too few (less
// than two degrees of freedom).
void include_fits(std::vector<PairedDifference>& differences, const std::vector<MetricOfFits>& a,
                  const std::vector<MetricOfFits>& b, double level);

}  // namespace coldframe::temporal

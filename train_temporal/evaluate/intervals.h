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
  // Of differences: the standard error between fits, beyond what patients explain; NaN with a
  // single fit.
  double error_of_fits = std::numeric_limits<double>::quiet_NaN();
};

struct MetricSummary {
  Metric metric = nullptr;
  Estimate mean_over_folds;  // over the folds in which it is defined
  Estimate pooled;           // of all exams of a repeat, averaged over repeats
  // Where a fold lacks a class: the mean over all folds of the mean over the classes that each has.
  MetricValue over_classes_present;
  double sd_over_folds = 0;           // n − 1; NaN with fewer than two folds
  std::vector<MetricValue> per_fold;  // in the order of the folds given
  // True if mean_over_folds is to be reported: MetricRow::over_folds is set and at least half of
  // the folds have a value.
  bool by_fold = false;

  const Estimate& primary() const { return by_fold ? mean_over_folds : pooled; }
  std::size_t folds_with_it() const;
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
  std::vector<MetricValue> over_classes_present;   // [metric]; see MetricSummary
  struct ByClass {
    std::vector<double> over_folds, pooled;  // means, NaN if undefined
  };
  std::vector<ByClass> by_class;  // [metric], of a mean over classes, or targets; else empty
  std::vector<Block> blocks;
  // Patients with exams of each class; for numbers: all. Of a mean over targets: of the rarest
  // class of each.
  std::vector<std::size_t> patients_of_class;
  // Patients with labelled exams; of a mean over targets: those of the target that has most.
  std::size_t patients = 0;
  std::size_t patients_decided = 0;  // with an exam for which class 1 was decided
  // Of each class: disjoint pairs, within folds, of a patient of it and one of the others, the
  // basis of an AUROC of 1.
  std::vector<std::size_t> pairs_of_class;
  std::vector<std::size_t> pooled_pairs_of_class;  // likewise, of all folds together
  bool of_targets = false;  // a mean over targets, which stand in place of classes
  double level = 0.95;
};

// With more patients than these, groups of them are left out, so that the work grows only with the
// number of exams.
inline constexpr std::size_t kMaxBlocks = 1000;

// `only`: the metrics to compute; empty: metrics_for() these exams.
MetricTable leave_out_patients(std::span<const FoldScores> folds, double level = 0.95,
                               std::span<const Metric> only = {},
                               std::size_t most_blocks = kMaxBlocks);

std::vector<MetricSummary> summarize(const MetricTable& table);

// The mean over several targets of the same exams: macro AUROC and AUPRC of binary targets.
// Undefined if it is so for one target, as in scikit-learn. The tables must come from the same
// folds.
MetricTable macro_table(std::span<const MetricTable> targets);

// Fits of one model vary by chance, in addition to patients. A claim about a model, rather than
// about the given fits, must include this variance.

// By how much leaving out each patient changes a metric, relative to the mean of its stratum; a
// patient alone in its stratum is compared with the metric itself. The squares add up to the
// jackknife variance, (g − 1) / g · Σ (a − ā)² over the g patients of each stratum. NaN if the
// metric is undefined without one of the patients. Patients without exams here are left out.
struct Influences {
  std::vector<double> by;
  std::vector<std::pair<std::size_t, int>> stratum;  // fold (of means over folds), class
};

// A metric of single fits. A part is a fold, or the pooled folds of a repeat.
struct FiguresOfFits {
  std::vector<std::vector<double>> figures;  // [part][fit], NaN if undefined
  std::vector<Influences> changes;           // [fit] of the mean over parts
};

struct MetricOfFits {
  FiguresOfFits over_folds, pooled;
};

// For the metrics of a table of these folds and `only` these metrics. `fits`: [fit] the same folds,
// scored by a single fit each. Without them, repeats of the split count as fits of one part; empty
// with a single repeat.
std::vector<MetricOfFits> figures_of_fits(std::span<const FoldScores> folds,
                                          std::span<const std::vector<FoldScores>> fits,
                                          std::span<const Metric> only = {});

// a − b, fold by fold. Both tables must come from the same held-out exams in the same folds. The
// difference is bounded by its own error (see difference_bounds), so that it is known the better
// the more the models agree. Where no patient tells them apart, as where both are perfect, the
// bounds are what so many patients exclude.
//
// The error is that of patients and fits as in a two-way layout (Cameron, Gelbach and Miller 2011,
// Robust inference with multiway clustering): the jackknife's variance, plus the variance between
// fits of their mean, less what the jackknife finds of the latter, since fits that differ in some
// patients only are no more uncertain than these. Fits count if both models have equally many, and
// enough (two degrees of freedom).
struct PairedDifference {
  Metric metric = nullptr;
  Estimate mean_over_folds, pooled;
  bool by_fold = false;  // as in MetricSummary

  const Estimate& primary() const { return by_fold ? mean_over_folds : pooled; }
};
std::vector<PairedDifference> paired_differences(const MetricTable& a, const MetricTable& b,
                                                 std::span<const MetricOfFits> fits_of_a = {},
                                                 std::span<const MetricOfFits> fits_of_b = {});

// a − b of a metric on different patients: the interval combines those of a and b (MOVER: Zou and
// Donner 2008, after Newcombe 1998).
Estimate unpaired_difference(const Estimate& a, const Estimate& b);

// The jackknife variance of a metric over patients.

// A metric is aggregated as the mean over folds, or pooled.
enum class Aggregation { kOverFolds, kPooled };

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

}  // namespace coldframe::temporal

// Intervals by patient, and paired differences between two models on the same patients.
//
// How much a figure owes to chance among patients is told by leaving out each of them in turn (the
// jackknife; of AUROCs of one exam a patient it is the variance of DeLong et al. 1988). Patients
// are compared with those of their own class (and of their fold, where a figure is a mean over
// folds), so that small folds do not make intervals too narrow, as resamples of them do. bounds.h
// makes intervals of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "train_temporal/metrics/intervals/fold_scores.h"
#include "train_temporal/metrics/metric_table.h"

namespace coldframe::temporal {

// Claims, of which a report makes several at once, take intervals of this level.
inline constexpr double kClaimLevel = 0.99;

struct Estimate {
  MetricValue value;
  MetricValue low, high;  // undefined, with the reason, where nothing bounds the value
  // The same at kClaimLevel; NaN where nothing bounds the value.
  double claim_low = std::numeric_limits<double>::quiet_NaN();
  double claim_high = std::numeric_limits<double>::quiet_NaN();
  // Of differences, see fit_spread.h: the standard error by which fits differ beside patients; NaN
  // where there is one fit.
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

}  // namespace coldframe::temporal

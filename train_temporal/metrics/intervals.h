// 95 % bootstrap intervals by patient, and paired differences between two models on the same
// resamples. The primary figure is the mean over folds; the pooled one takes all held-out exams of
// a repeat together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "train_temporal/metrics/metrics.h"

namespace coldframe::temporal {

// The held-out exams of one fold. Probabilities of several seeds are averaged before: seeds are not
// samples.
struct FoldScores {
  std::size_t repeat = 0, fold = 0;
  ScoredExams exams;
  std::vector<std::size_t> patient;  // [N] any numbering that is the same in all folds and models
  // The patients whose exams the fold holds out, with or without a label, are drawn. Empty:
  // `patient`.
  std::vector<std::size_t> drawn_from = {};
};

struct BootstrapOptions {
  std::size_t resamples = 2000;
  std::uint64_t seed = 0;
  double level = 0.95;
};

// The interval is the bias-corrected percentile one (Efron 1981): the plain one, moved by how far
// the estimate lies from the median of the resamples. Resamples of small folds raise figures such
// as ECE and average precision, whose plain interval can then lie beside the estimate.
struct Estimate {
  Figure value;
  Figure low, high;  // undefined when fewer than half of the resamples gave a value
};

struct MetricSummary {
  Metric metric = Metric::kAuroc;
  Estimate mean_over_folds;      // over the folds in which it is defined
  Estimate pooled;               // of all exams of a repeat, averaged over repeats
  double sd_over_folds = 0;      // n − 1; NaN with fewer than two folds
  std::vector<Figure> per_fold;  // in the order of the folds given
};

// The value of every metric in every fold and repeat, on the data as they are and on each resample.
// NaN where undefined.
struct MetricTable {
  struct Row {                   // of one metric on one resample
    std::vector<double> fold;    // in the order of the folds given
    std::vector<double> pooled;  // one per repeat
  };
  std::vector<Metric> metrics;
  std::vector<std::vector<Figure>> per_fold;  // [metric][fold] on the data as they are
  std::vector<std::vector<Figure>> pooled;    // [metric][repeat] likewise
  std::vector<std::vector<Row>> resampled;    // [resample][metric]
  double level = 0.95;
};

// Patients are drawn with replacement within the folds of the first repeat; every repeat sees the
// same draw, as repeats are not new patients.
MetricTable resample_metrics(std::span<const FoldScores> folds,
                             const BootstrapOptions& options = {});

std::vector<MetricSummary> summarize(const MetricTable& table);

// The mean over several targets of the same exams, resample by resample: macro AUROC and AUPRC of
// binary targets. Undefined where it is for one of them, as in scikit-learn. The tables must come
// from the same folds and options.
MetricTable macro_table(std::span<const MetricTable> targets);

// a − b, fold by fold, on the same resamples. Both tables must come from the same held-out exams
// in the same folds, with the same options.
struct PairedDifference {
  Metric metric = Metric::kAuroc;
  Estimate mean_over_folds, pooled;
};
std::vector<PairedDifference> paired_differences(const MetricTable& a, const MetricTable& b);

// Counts how often each patient is drawn in one resample: count[p] for every patient number, given
// the patients of each stratum.
std::vector<std::uint32_t> draw_patients(const std::vector<std::vector<std::size_t>>& strata,
                                         std::size_t patient_count, std::uint64_t seed,
                                         std::uint64_t resample);

}  // namespace coldframe::temporal

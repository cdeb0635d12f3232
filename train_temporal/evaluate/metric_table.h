// Each metric is a row in the file that computes it; a new metric changes nothing else.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "train_temporal/evaluate/metrics.h"

namespace coldframe::temporal {

class MetricInput;  // metric_rows.h

// The kinds of labels to which a metric applies.
enum LabelKind : unsigned {
  kTwoClasses = 1,
  kManyClasses = 2,
  kOrdinalClasses = 4,
  kNumberLabels = 8,
  kTimeLabels = 16,
  kOneClass = 32,  // one of several, against the rest
  kNominalClasses = kTwoClasses | kManyClasses,
  kAllClasses = kNominalClasses | kOrdinalClasses,
};

// The scale on which an interval is computed; see bounds.h.
enum class Shape {
  kShare,     // within 0 … 1
  kSigned,    // within −1 … 1
  kPositive,  // above 0
  kError,     // likewise, of predicted numbers; an interval that reaches 0 bounds nothing
  kBelowOne,  // below 1
  kAnywhere,  // the coefficients of the calibration line
  kNone,      // without an interval
};

// The independent units on which a perfect metric rests.
enum class Units {
  kRarestClass,  // patients of the rarest class; for numbers all
  kPatients,
  kPairs,  // over folds: disjoint pairs of patients; pooled: the patients of the rarest class
  kPositives,
  kNegatives,
  kDecided,  // patients for whom class 1 was decided
  kEvents,   // patients with an event: each pair has one
};

struct MetricRow {
  std::string_view key;    // "auroc": in files
  std::string_view title;  // "AUROC": in reports
  unsigned labels;         // LabelKind
  MetricValue (*compute)(const MetricInput&);
  Shape shape;
  Units units = Units::kRarestClass;
  std::size_t min_units = 4;           // for an interval
  std::size_t min_in_differences = 0;  // for one of a difference of two models
  double chance = 0;                   // value of a model without skill
  bool frames_only = false;            // for per-frame targets only
  // Rank metrics compare exams of one fold only, whose scores come from one model; they are
  // averaged over folds. All other metrics pool the held-out exams of all folds, since small folds
  // would bias them or leave them undefined (Forman and Scholz 2010).
  bool over_folds = false;
  // From so many classes on it is a mean over them; 0: it is none.
  std::size_t mean_of_classes = 0;
  std::vector<MetricValue> (*by_class)(const MetricInput&) = nullptr;  // of which it is the mean
  bool over_targets = false;  // also averaged over several binary targets: macro average
  // True if it does not depend on class frequencies: their sampling variation then is no part of
  // its error.
  bool given_classes = false;
  bool compared = false;  // a column of the table of models
};

using Metric = const MetricRow*;  // points into the table, so addresses are unique

// The rows of each file.
std::span<const MetricRow> class_metrics();
std::span<const MetricRow> frame_metrics();
std::span<const MetricRow> number_metrics();
std::span<const MetricRow> time_metrics();

// Looks up a metric by its key, which must exist.
Metric metric_named(std::string_view key);
// The metrics for the labels of `exams`, in the order of reports.
std::vector<Metric> metrics_for(const ScoredExams& exams);
// Those of one class against the rest, likewise.
std::vector<Metric> metrics_of_one_class();
// The columns of the table of models for a scale, in the order of reports.
std::vector<Metric> compared_metrics(Scale scale);
// "macro AUROC" where it is the unweighted mean over several classes, each against the rest; else
// its title. Balanced accuracy, macro recall, has a name of its own.
std::string title_of(Metric metric, std::size_t classes);
// The metric by which models are compared; higher is better.
Metric main_metric(Scale scale);

// Undefined, with the reason, if a class that it needs has no exam.
MetricValue compute_metric(Metric metric, const ScoredExams& exams);
// Of a mean of classes the figure of each; empty of others.
std::vector<MetricValue> compute_by_class(Metric metric, const ScoredExams& exams);
// In the order of `metrics`; computes shared intermediate results once.
std::vector<MetricValue> compute_metrics(std::span<const Metric> metrics, const ScoredExams& exams);

}  // namespace coldframe::temporal

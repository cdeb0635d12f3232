// A metric is its row, in the file that computes it: a new one touches nothing else.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "train_temporal/evaluate/metrics.h"

namespace coldframe::temporal {

class MetricInput;  // metric_rows.h

// The kinds of labels that a metric is of.
enum LabelKind : unsigned {
  kTwoClasses = 1,
  kManyClasses = 2,
  kOrdinalClasses = 4,
  kNumberLabels = 8,
  kTimeLabels = 16,
  kNominalClasses = kTwoClasses | kManyClasses,
  kAllClasses = kNominalClasses | kOrdinalClasses,
};

// The scale that an interval is made on; see bounds.h.
enum class Shape {
  kShare,     // within 0 … 1
  kSigned,    // within −1 … 1
  kPositive,  // above 0
  kError,     // likewise, of predicted numbers: an interval that reaches 0 bounds nothing
  kBelowOne,  // below 1
  kAnywhere,  // the coefficients of the calibration line
  kNone,      // without an interval
};

// A perfect metric rests on so many independent units.
enum class Units {
  kRarestClass,  // the patients of the class with the fewest; of numbers all
  kPatients,
  kPairs,  // over folds: disjoint pairs of patients; pooled: the patients of the rarest class
  kPositives,
  kNegatives,
  kEvents,  // patients with an event: each pair has one
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
  double chance = 0;                   // what a model without skill reaches
  bool frames_only = false;            // of the frames of a target per frame
  // Ranks compare exams of one fold only, whose scores come from one model, and are means over
  // folds. All other metrics are taken from the held-out exams of all folds together, where small
  // folds would bias them, or leave them undefined (Forman and Scholz 2010).
  bool over_folds = false;
  bool over_targets = false;  // and over several binary targets: a macro average
  // It does not depend on how many exams there are of each class: that this varies from sample to
  // sample is no part of its error.
  bool given_classes = false;
  bool compared = false;  // a column of the table of models
};

using Metric = const MetricRow*;  // of the table: each has one address

// The rows of one file each.
std::span<const MetricRow> class_metrics();
std::span<const MetricRow> frame_metrics();
std::span<const MetricRow> number_metrics();
std::span<const MetricRow> time_metrics();

// By its key, which must be one of the table.
Metric metric_named(std::string_view key);
// The metrics of such labels, in the order of reports.
std::vector<Metric> metrics_for(const ScoredExams& exams);
// Those of a scale that are columns of the table of models, in the order of reports.
std::vector<Metric> compared_metrics(Scale scale);
// The metric by which models are compared, higher being better.
Metric main_metric(Scale scale);

// Undefined, with the reason, where a class that it needs has no exam.
MetricValue compute_metric(Metric metric, const ScoredExams& exams);
// In the order given; what several of them need is computed once.
std::vector<MetricValue> compute_metrics(std::span<const Metric> metrics, const ScoredExams& exams);

}  // namespace coldframe::temporal

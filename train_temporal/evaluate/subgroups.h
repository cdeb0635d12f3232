// Metrics on new groups, such as sites, vary more than patients show, since groups differ.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "train_temporal/evaluate/bounds.h"
#include "train_temporal/evaluate/intervals.h"

namespace coldframe::temporal {

// Replaces the interval by Student's interval of a mean over groups, if this is wider. `figures`:
// the metric of each group. `range`: of the metric.
void widen_by_groups(Estimate& estimate, const std::vector<MetricValue>& figures, double level,
                     const MetricRange& range);

// Metrics for each value of a column, and their differences from the other exams.

// The exams with one value of a column.
struct Subgroup {
  std::string value;
  std::size_t exams = 0, patients = 0;
  std::vector<std::size_t> exams_per_class;
  std::vector<MetricSummary> summary;
  std::vector<Estimate> minus_others;  // of each metric: these exams − those with another value
};
struct SubgroupColumn {
  std::string column;
  std::vector<std::string> values;
  std::vector<std::size_t> value_of;  // of each exam; values.size(): missing
  // Set by evaluate_groups(): groups in the order of `values`, and the number of exams, or frames,
  // without a value.
  std::vector<Subgroup> groups;
  std::size_t without_value = 0;
};

// `folds`: the held-out exams of a model; ScoredExams::frame identifies them. `classes`: 0 without
// classes.
void evaluate_groups(SubgroupColumn& column, const std::vector<FoldScores>& folds,
                     std::size_t classes, double level);

}  // namespace coldframe::temporal

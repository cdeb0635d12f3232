// A figure of new groups, such as sites, owes more to chance than patients show, since groups
// differ.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "train_temporal/evaluate/bounds.h"
#include "train_temporal/evaluate/intervals.h"

namespace coldframe::temporal {

// The interval becomes that of a mean of groups, by Student's distribution, where this is wider.
// `figures`: of each group; the range is that of the figure.
void widen_by_groups(Estimate& estimate, const std::vector<MetricValue>& figures, double level,
                     const MetricRange& range);

// The exams of each value of a column, and how their figures differ from those of the others.

// The exams that have one value of a column.
struct Subgroup {
  std::string value;
  std::size_t exams = 0, patients = 0;
  std::vector<std::size_t> exams_per_class;
  std::vector<MetricSummary> summary;
  std::vector<Estimate> minus_others;  // of each figure: these exams − those with another value
};
struct SubgroupColumn {
  std::string column;
  std::vector<std::string> values;
  std::vector<std::size_t> value_of;  // of each exam; values.size(): it has none
  // After evaluate_groups(), in the order of `values`; and so many exams, or frames, in none.
  std::vector<Subgroup> groups;
  std::size_t without_value = 0;
};

// `folds`: the held-out exams of a model, whose frames name them. `classes`: 0 without classes.
void evaluate_groups(SubgroupColumn& column, const std::vector<FoldScores>& folds,
                     std::size_t classes, double level);

}  // namespace coldframe::temporal

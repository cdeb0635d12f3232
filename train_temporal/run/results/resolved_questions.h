// The questions to a report, as the exams of a cohort answer them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "train_temporal/report/questions.h"
#include "train_temporal/run/cohort/cohort.h"

namespace coldframe::temporal {

struct ResolvedQuestions {
  Questions questions;
  // Exams of one number are averaged; empty: every exam counts by itself.
  std::vector<std::size_t> unit;
  using Columns = std::vector<std::pair<std::string, std::vector<std::string>>>;
  Columns columns, characteristics;  // of the subgroups, and those that describe the cohort
};

// ConfigError where targets have no answer: decisions that are none, one threshold of several,
// borders of phases.
void check_answerable(const Questions& questions, const std::vector<Target>& targets);

// Those of a run: groups that are held out one at a time are told apart as subgroups are.
Questions questions_of(const TrainOptions& options, Cohort& cohort);

// ConfigError where the targets or columns cannot answer: no binary target, several for one
// threshold, a value per frame to aggregate, a column that is no grouping, or of too many values
// for a table. DataError where exams to be averaged differ in a label or in a column of the
// subgroups. Values that are taken as one become warnings of the cohort.
ResolvedQuestions ask(Cohort& cohort, const Questions& questions);

}  // namespace coldframe::temporal

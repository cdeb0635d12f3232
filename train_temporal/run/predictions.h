// The columns that tables of predictions share: for each target `label` (where there are labels),
// p_<class> for its classes, and `predicted`; a time to an event has `event` beside `label`, and
// `risk` and survival_<horizon> in place of the rest. With several targets each stands behind the
// target's name and a colon.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cache/format/exam.h"
#include "train_temporal/splits/labels.h"

namespace coldframe::temporal {

enum class WithLabels { kNo, kYes };
void add_header(std::vector<std::string>& header, std::span<const Target> targets,
                WithLabels labels);

// `label`: as Labels::at() has it; NaN leaves the fields empty.
void add_label(std::vector<std::string>& row, const Target& target, double label);
// The scores of one row and its decision.
void add_prediction(std::vector<std::string>& row, const Target& target,
                    std::span<const double> scores, int decision);

// The number of each present frame among all of the exam's: what the column `frame` says.
std::vector<std::size_t> present_slots(const cache::ExamInfo& exam);

}  // namespace coldframe::temporal

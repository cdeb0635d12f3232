// What predict and evaluate say of exams unlike the training data (unlike_training.h).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "train_temporal/report/report.h"
#include "train_temporal/run/apply/ensemble.h"
#include "train_temporal/run/apply/unlike_training.h"
#include "train_temporal/run/predictions.h"

namespace coldframe::temporal {

// Counts, and warns of exams beyond the rate, or that too few were held out to find any: empty
// where so many could as well be chance.
std::size_t count_flagged(const std::vector<OodScore>& exams);
std::string warn_of_unlike(const std::vector<OodScore>& exams);

// What judge_inputs() judges beside the features: what the models were shown of times.
std::vector<Trait> times_shown_to(const Ensemble& ensemble);

// judge_inputs() of these exams; empty for a run or a bundle that does not know.
std::vector<OodScore> judge_exams(const std::filesystem::path& run, const Dataset& dataset,
                                  const std::vector<std::size_t>& exams,
                                  const std::vector<Trait>& times);

// As columns unlike_training and unlike_rank; none where `unlike` is empty, else it has every exam
// of the table's rows, in their order.
void add_unlike(PredictionTable& table, const std::vector<OodScore>& unlike);

// A row for each trait that the run's held-out exams have.
std::vector<CohortShift> cohort_shift(const UnlikeTraining& unlike, const ExamTraits& exams);

}  // namespace coldframe::temporal

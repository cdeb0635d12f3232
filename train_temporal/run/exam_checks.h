// What somebody has to know who applies a run's models to exams: whether it may have been trained
// on them, and whether it has seen sequences of such lengths.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "cache/format/exam.h"
#include "train_temporal/data/sequence_reader.h"
#include "train_temporal/models/model_file.h"
#include "train_temporal/run/ensemble.h"

namespace coldframe::temporal {

// Counts the exams of `used` that have the id of one that a fold of the run trained on or validated
// with, or whose patient has the id of one of its patients. `patients`: of every exam; empty: each
// exam is another patient.
std::size_t count_known(const std::filesystem::path& run, std::span<const cache::ExamInfo> exams,
                        const std::vector<std::string>& patients,
                        const std::vector<std::size_t>& used);

// Says of `known` exams, more than 0, that `run` has such ids: what follows if these are the same
// people, and the option for other people.
std::string warn_of_same_ids(std::size_t known, const std::string& run,
                             const std::string& if_same_people);

// Says so of exams more than twice as long as all that the model was fitted on, or less than half
// as long; empty where there are none, or where the model's file does not tell.
std::string warn_of_lengths(const ModelMetadata& card, std::span<const cache::ExamInfo> exams,
                            const std::vector<std::size_t>& used);

// Models that were shown times are told by these what the exams lack that they are applied to.

// Counts exams of which no interval between frames is known, or not the start since the zero that
// the models were shown. Empty where the models see no times or
// nothing is missing; else a warning. DataError where all lack times, unless `without_times` says
// that this is known.
std::string check_times(Ensemble& ensemble, const SequenceReader& cache,
                        const std::vector<std::size_t>& exams, bool without_times);

}  // namespace coldframe::temporal

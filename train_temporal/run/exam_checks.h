// Checks of exams, most of them before a run's models are applied: whether they may have been
// trained on these, and whether they have seen exams of such kinds and lengths.
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

// Counts the exams of `used` whose id, or whose patient's id, occurs in the training or validation
// part of a fold of the run. `patients`: of every exam; empty: each exam is a separate patient.
std::size_t count_known(const std::filesystem::path& run, std::span<const cache::ExamInfo> exams,
                        const std::vector<std::string>& patients,
                        const std::vector<std::size_t>& used);

// Warns that `run` has the ids of `known` > 0 exams: what follows if they are the same people, and
// the option if they are not.
std::string warn_of_same_ids(std::size_t known, const std::string& run,
                             const std::string& if_same_people);

// Warns of exams more than twice as long as the longest, or less than half as long as the shortest,
// exam of the fit; empty if there are none, or if the model's file does not state the lengths.
std::string warn_of_lengths(const ModelMetadata& card, std::span<const cache::ExamInfo> exams,
                            const std::vector<std::size_t>& used);

// Warns of exams of another kind than the training's: of a kind of source (video, dicom, …) or, for
// the modalities that DICOM files state, of a modality that no exam of the training has. Empty if
// there are none. What is unknown of either side is not compared: features that were imported, and
// models from before modalities were kept.
std::string warn_of_kinds(const ModelMetadata& card, std::span<const cache::ExamInfo> exams,
                          const std::vector<std::size_t>& used);
bool is_of_other_kind(const ModelMetadata& card, const cache::ExamInfo& exam);

// The DICOM modalities of the given exams (by index), sorted.
std::vector<std::string> modalities(std::span<const cache::ExamInfo> exams,
                                    const std::vector<std::size_t>& used);

// Warns of exams whose frames' times fall, as `cache import --allow-unordered` and `extract
// --allow-unordered` store them; empty if there are none. Visits that are joined to the exams count
// by themselves: no time falls where one begins.
std::string warn_of_falling_times(const SequenceReader& cache,
                                  const std::vector<std::size_t>& used);

// Checks that exams have the time inputs with which the models were trained.

// Warns of exams without any known interval between frames, or without the start relative to the
// common time zero if the models use it. Empty if the models use no times or nothing is missing.
// DataError if all exams lack times, unless `without_times` accepts that.
std::string check_times(Ensemble& ensemble, const SequenceReader& cache,
                        const std::vector<std::size_t>& exams, bool without_times);

}  // namespace coldframe::temporal

// The exams of a cache become sequences: frames of several streams become one input, and the
// visits of a patient one sequence.
#pragma once

#include <string>
#include <vector>

#include "train_temporal/data/dataset.h"
#include "train_temporal/data/sequence_reader.h"
#include "train_temporal/splits/split.h"

namespace coldframe::temporal {

// The name for exams' start times, where no column has it.
inline constexpr const char* kStartTime = "start_time";

// Merges and joins the exams of `cache` as it is asked, and warns where streams do not meet and of
// patients that are taken as one.
// ConfigError and DataError say why not.
std::vector<std::string> arrange(SequenceReader& cache, const Arrangement& arrangement,
                                 EqualNumbers of_patients);

// Warns of streams that held-out exams have and no exam of their fold's training part.
std::vector<std::string> unlearnt_streams(const SequenceReader& cache,
                                          const std::vector<Split>& splits);

// Reads every exam with all earlier ones of its patient before it. `column`: of the cache, the time
// of each visit as a date or in days, or kStartTime. Exams at the same time do not see each other,
// exams without a patient or without a frame of their own stay as they are. ConfigError: no such
// column, no patient at all, a time that cannot be read or is missing where the patient has other
// exams.
void join_visits(SequenceReader& cache, const std::string& column, EqualNumbers of_patients,
                 std::vector<std::string>& warnings);

}  // namespace coldframe::temporal

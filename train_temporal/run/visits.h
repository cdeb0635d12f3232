// A patient's exams as visits: each is read with all earlier ones before it, as one sequence.
#pragma once

#include <string>

#include "cache/read/reader.h"

namespace coldframe::temporal {

// The name for exams' start times, where no column has it.
inline constexpr const char* kStartTime = "start_time";

// Joins the exams of `cache`. `column`: of the cache, the time of each visit as a date or in days,
// or kStartTime. Exams at the same time do not see each other, exams without a patient or without
// a frame of their own stay as they are. ConfigError: no such column, no patient at all, a time
// that cannot be read or is missing where the patient has other exams.
void join_visits(cache::CacheReader& cache, const std::string& column);

}  // namespace coldframe::temporal

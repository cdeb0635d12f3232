// A column of exams, whatever it is for.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cache/format/exam.h"
#include "common/files/csv.h"

namespace coldframe::temporal {

// The values of a column, one per exam, each number and each word (spelling.h) in one spelling, ""
// where there is none: of `labels` if it has the column, else of the cache. Words that were taken
// as one are told in `warnings`. ConfigError, which names `option`, where neither has it; DataError
// where `labels` has two values for an exam.
std::vector<std::string> exam_column(std::span<const cache::ExamInfo> exams, const CsvTable* labels,
                                     const std::string& column, const std::string& option,
                                     std::vector<std::string>& warnings);

}  // namespace coldframe::temporal

// A column of exams, whatever it is for.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cache/format/exam.h"
#include "common/files/csv.h"

namespace coldframe::temporal {

// The values of a column, one per exam, each number in one spelling, "" where there is none: of
// `labels` if it has the column, else of the cache. ConfigError, which names `option`, where
// neither has it.
std::vector<std::string> exam_column(std::span<const cache::ExamInfo> exams, const CsvTable* labels,
                                     const std::string& column, const std::string& option);

}  // namespace coldframe::temporal

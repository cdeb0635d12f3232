// In which metadata two versions of an exam differ.
#pragma once

#include <string>
#include <vector>

#include "cache/format/exam.h"

namespace coldframe::cache {

// Lists the differences except in features and ordinal, one line each: "column label '0' ->
// '1'", "times". A column that one of them lacks is empty there. Paths and modification times of
// sources are not compared.
std::vector<std::string> differences(const ExamInfo& before, const ExamInfo& after);

}  // namespace coldframe::cache

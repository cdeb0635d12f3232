// In which metadata two versions of an exam differ.
#pragma once

#include <string>
#include <vector>

#include "cache/format/exam.h"

namespace coldframe::cache {

// Lists the differences besides features and place in the input, a line each: "column label '0' ->
// '1'", "times". A column that one of them lacks is empty there. Places of sources and the times at
// which they were touched are no content.
std::vector<std::string> differences(const ExamInfo& before, const ExamInfo& after);

}  // namespace coldframe::cache

// Labels from a CSV beside the cache.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/files/csv.h"

namespace coldframe::temporal {

// The row of every exam that the file lists. `spelt`: its values of `column`, in one spelling.
// DataError: a row without an exam, two values of one exam.
std::map<std::string, std::size_t> rows_of_exams(const CsvTable& table, const std::string& column,
                                                 const std::vector<std::string>& spelt);

}  // namespace coldframe::temporal

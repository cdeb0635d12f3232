// A manifest's table as it is read: columns under the names that they have here, and files under
// the names that they have on this machine. What is taken to mean something else than it says comes
// as a warning.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "common/files/csv.h"
#include "extract/frames/input/exam_list.h"

namespace coldframe::frames {

bool is_own_column(std::string_view title);  // exam, path, frame, time, patient or crop

// ConfigError: a column of --columns that cannot be.
CsvTable read_manifest_table(const std::filesystem::path& path, const ExamListOptions& options,
                             std::vector<std::string>& warnings);

// DataError says which columns there are, and how to name this one.
std::size_t require_own_column(const CsvTable& table, std::string_view own);

// Of each row's file, "" where it is missing.
std::vector<std::string> names_of_files(const CsvTable& table, const std::filesystem::path& folder,
                                        std::vector<std::string>& warnings);

}  // namespace coldframe::frames

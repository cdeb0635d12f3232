// The path of a manifest's row may stand for several files.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "extract/frames/input/exam_list.h"

namespace coldframe::frames {

// Nothing when the path names one file, there or not, a folder without any exam, or a pattern that
// matches no file: then the row is a missing one. A folder stands for the one exam that it holds,
// its images in natural order or its DICOM series, and a pattern with *, ? or [ (where no file has
// that name) for the files that it matches, in the same order.
// DataError: a folder with several exams. What a folder holds and is passed over comes as warnings.
std::optional<ExamSpec> files_of_row(const ExamItem& row, const ExamListOptions& options,
                                     std::vector<std::string>& warnings);

// True for the name of a file or folder that is there, and for a pattern that matches one.
bool names_files(const std::filesystem::path& folder, const std::string& name);

}  // namespace coldframe::frames

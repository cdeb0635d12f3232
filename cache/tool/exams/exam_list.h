// A file that names exams: a manifest, or a list of ids.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace coldframe::cache::tool {

struct ListedExam {
  std::string id;
  std::vector<std::filesystem::path> files;  // each once, in order of appearance; a list has none
};

struct ExamListFile {
  std::vector<ListedExam> exams;  // each once, in order of appearance
  bool has_files = false;         // it has a column `path`
};

// A CSV with the column `exam` (and `path`, relative to it, as `extract --input` takes), or ids
// alone, one a line. DataError: neither.
ExamListFile read_exam_list(const std::filesystem::path& path);

}  // namespace coldframe::cache::tool

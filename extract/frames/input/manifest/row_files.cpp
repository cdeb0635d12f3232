#include "extract/frames/input/manifest/row_files.h"

#include <glob.h>

#include <algorithm>
#include <iterator>
#include <system_error>

#include "common/cli/error.h"
#include "common/files/retry_policy.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "extract/frames/input/exam_names.h"
#include "extract/frames/input/file_name.h"

namespace coldframe::frames {
namespace {

namespace fs = std::filesystem;

std::optional<ExamList> list_if_any(const fs::path& folder, const ExamListOptions& options) {
  try {
    return list_folder(folder, options);
  } catch (const DataError&) {  // it holds no exam; reading the row as a file says what it is
    return std::nullopt;
  }
}

std::optional<ExamSpec> files_of_folder(const ExamItem& row, const ExamListOptions& options,
                                        std::vector<std::string>& warnings) {
  ExamListOptions plain;
  plain.reader = options.reader;
  auto list = list_if_any(row.path.has_filename() ? row.path : row.path.parent_path(), plain);
  if (!list) return std::nullopt;
  std::vector<ExamSpec>& exams = list->exams;
  if (exams.size() > 1)
    throw DataError(concat("the folder '", row.name, "' holds ", exams.size(), " exams, '",
                           exams[0].id, "' and '", exams[1].id,
                           "' among them; give each a row of its own"));
  for (const std::string& warning : list->warnings)
    warnings.push_back(concat("'", row.name, "': ", warning));
  for (ExamItem& item : exams[0].items)
    item.name = (fs::path(row.name) / item.name).generic_string();
  return std::move(exams[0]);
}

std::vector<std::string> matches(const fs::path& pattern) {
  glob_t found = {};
  std::vector<std::string> names;
  if (::glob(pattern.c_str(), 0, nullptr, &found) == 0) {
    for (std::size_t i = 0; i < found.gl_pathc; ++i) {
      if (fs::is_regular_file(status_of(found.gl_pathv[i]))) names.push_back(found.gl_pathv[i]);
    }
  }
  ::globfree(&found);
  std::sort(names.begin(), names.end(),
            [](const auto& a, const auto& b) { return natural_less(a, b); });
  return names;
}

// The manifest's folder stands in front of a relative pattern, and must not count as part of it.
std::string escaped(const std::string& folder) {
  std::string text;
  for (const char c : folder) {
    if (c == '*' || c == '?' || c == '[' || c == '\\') text += '\\';
    text += c;
  }
  return text;
}

std::vector<ExamItem> files_of_pattern(const ExamItem& row) {
  std::string folder = row.path.string();
  folder.resize(folder.size() - row.name.size());
  std::vector<ExamItem> items;
  for (const std::string& path : matches(escaped(folder) + row.name)) {
    ExamItem item;
    item.path = path;
    item.name = utf8_name(path.substr(folder.size()));
    items.push_back(std::move(item));
  }
  return items;
}

// In the order of their headers where all are of one exam by these, else of their names.
ExamSpec in_order(std::vector<ExamItem> items, const ExamListOptions& options,
                  std::vector<std::string>& warnings) {
  if (has_series(items.front())) {
    std::vector<std::string> said;
    NamedExams named = name_exams(items, options.reader.grouping, said);
    const auto is_told = [](const auto& place) {
      return place.second.from_header || place.second.passed_over;
    };
    if (named.exams.size() == 1 && std::ranges::all_of(named.places, is_told)) {
      std::ranges::move(said, std::back_inserter(warnings));
      return std::move(named.exams.begin()->second);
    }
  }
  ExamSpec files;
  files.items = std::move(items);
  if (files.items.size() > 1) files.basis = by_names();
  return files;
}

}  // namespace

std::optional<ExamSpec> files_of_row(const ExamItem& row, const ExamListOptions& options,
                                     std::vector<std::string>& warnings) {
  if (row.path.empty()) return std::nullopt;
  const fs::file_status status = status_of(row.path);
  if (fs::is_directory(status)) return files_of_folder(row, options, warnings);
  if (fs::exists(status) || !is_pattern(row.name)) return std::nullopt;
  // A pattern of no file stays in the row: it is a missing one.
  std::vector<ExamItem> items = files_of_pattern(row);
  if (items.empty()) return std::nullopt;
  return in_order(std::move(items), options, warnings);
}

bool names_files(const fs::path& folder, const std::string& name) {
  if (name.empty()) return false;
  if (fs::exists(status_of(folder / name))) return true;
  ExamItem row;
  row.path = folder / name;
  row.name = name;
  return is_pattern(name) && !files_of_pattern(row).empty();
}

}  // namespace coldframe::frames

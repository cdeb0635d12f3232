#include "cache/tool/exams/exam_list.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "common/cli/error.h"
#include "common/files/csv.h"
#include "common/text/text.h"

namespace coldframe::cache::tool {
namespace {

namespace fs = std::filesystem;

// Ids alone look like a table of one column, whose title is the first of them.
bool is_bare_list(const CsvTable& table) {
  return table.header.size() == 1 && table.header[0] != "exam" && table.header[0] != "path";
}

}  // namespace

ExamListFile read_exam_list(const fs::path& path) {
  CsvTable table = read_csv(path);
  if (is_bare_list(table)) {
    table.rows.insert(table.rows.begin(), table.header);
    table.lines.insert(table.lines.begin(), 1);
    table.header = {"exam"};
  }
  const std::size_t exam = table.require_column("exam");
  const std::optional<std::size_t> file = table.column("path");
  ExamListFile list{{}, file.has_value()};
  std::unordered_map<std::string, std::size_t> places;
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    const std::string id = trim(table.rows[row][exam]),
                      name = file ? trim(table.rows[row][*file]) : "";
    if (id.empty())
      throw DataError(concat(table.name, ", line ", table.lines[row], ": column 'exam' is empty"));
    const auto [place, is_new] = places.emplace(id, list.exams.size());
    if (is_new) list.exams.push_back({id, {}});
    std::vector<fs::path>& files = list.exams[place->second].files;
    const fs::path full = path.parent_path() / fs::path(name);
    if (!name.empty() && std::find(files.begin(), files.end(), full) == files.end())
      files.push_back(full);
  }
  return list;
}

}  // namespace coldframe::cache::tool

#include "extract/frames/input/manifest/table.h"

#include <algorithm>
#include <array>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "extract/frames/input/file_name.h"
#include "extract/frames/input/manifest/row_files.h"

namespace coldframe::frames {
namespace {

constexpr std::array<std::string_view, 6> kOwnColumns{"exam", "path",    "frame",
                                                      "time", "patient", "crop"};

// A column 'Exam' is taken for 'exam', and likewise with the other two that every exam should have.
// Others of such names, 'Time' for one, may as well be columns of the exam.
void take_other_cases(CsvTable& table, std::vector<std::string>& warnings) {
  for (const char* own : {"exam", "path", "patient"}) {
    if (table.column(own)) continue;
    const auto is_it = [&](const std::string& title) { return lower(trim(title)) == own; };
    if (std::ranges::count_if(table.header, is_it) != 1) continue;
    std::string& title = *std::ranges::find_if(table.header, is_it);
    warnings.push_back(concat(table.name, ": the column '", title, "' is read as '", own, "'"));
    title = own;
  }
}

}  // namespace

bool is_own_column(std::string_view title) {
  return std::ranges::find(kOwnColumns, title) != kOwnColumns.end();
}

CsvTable read_manifest_table(const std::filesystem::path& path, const ExamListOptions& options,
                             std::vector<std::string>& warnings) {
  CsvTable table = read_csv(path);
  for (const auto& [own, theirs] : options.columns) {
    if (!is_own_column(own))
      throw ConfigError(concat("--columns ", own, "=", theirs, ": there is no column '", own,
                               "' to fill; there are exam, path, frame, time, patient and crop"));
    const std::size_t column = table.require_column(theirs);
    if (own != theirs && table.column(own))
      throw ConfigError(concat("--columns ", own, "=", theirs, ": ", table.name, " has a column '",
                               own, "' as well; rename or remove it"));
    table.header[column] = own;
  }
  take_other_cases(table, warnings);
  return table;
}

std::size_t require_own_column(const CsvTable& table, std::string_view own) {
  if (const auto found = table.column(own)) return *found;
  throw DataError(concat(table.name, ": no column '", own, "'; the columns are: ",
                         join(table.header, ", "), "; --columns ", own, "=NAME says which it is"));
}

// Windows parts paths by backslashes. Where a file of that name is there, it is meant.
std::vector<std::string> names_of_files(const CsvTable& table, const std::filesystem::path& folder,
                                        std::vector<std::string>& warnings) {
  const std::size_t path = require_own_column(table, "path");
  std::vector<std::string> names;
  std::size_t turned = 0;
  std::string first;
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    std::string name = is_missing(table.rows[row][path]) ? "" : trim(table.rows[row][path]);
    if (std::string other = with_slashes(name);
        other != name && !names_files(folder, name) && names_files(folder, other)) {
      if (turned++ == 0) first = concat("'", name, "' as '", other, "'");
      name = std::move(other);
    }
    names.push_back(std::move(name));
  }
  if (turned > 0)
    warnings.push_back(concat(table.name, ": the paths of ", plural(turned, "row"),
                              " are Windows' and are read with /, ", first));
  return names;
}

}  // namespace coldframe::frames

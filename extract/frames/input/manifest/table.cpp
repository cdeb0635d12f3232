#include "extract/frames/input/manifest/table.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <system_error>

#include "common/cli/error.h"
#include "common/files/retry_policy.h"
#include "common/text/text.h"
#include "extract/frames/input/file_name.h"
#include "extract/frames/input/manifest/row_files.h"

namespace coldframe::frames {
namespace {

constexpr std::array<std::string_view, 6> kOwnColumns{"exam", "path",    "frame",
                                                      "time", "patient", "crop"};

// A column 'Exam' is taken for 'exam', and likewise with the others that every exam should have.
// Others of such names, 'Time' for one, may as well be columns of the exam.
void take_other_cases(CsvTable& table, std::vector<std::string>& warnings) {
  for (const char* own : {"exam", "path", "patient", "split"}) {
    if (table.column(own)) continue;
    const auto is_it = [&](const std::string& title) { return lower(trim(title)) == own; };
    if (std::ranges::count_if(table.header, is_it) != 1) continue;
    std::string& title = *std::ranges::find_if(table.header, is_it);
    warnings.push_back(concat(table.name, ": the column '", title, "' is read as '", own, "'"));
    title = own;
  }
}

// Lists of other people call the path by the file: EchoNet's FileList.csv 'FileName'.
void take_file_names(CsvTable& table, std::vector<std::string>& warnings) {
  constexpr std::array<std::string_view, 4> kTitles{"filename", "file_name", "filepath",
                                                    "file_path"};
  if (table.column("path")) return;
  const auto is_it = [&](const std::string& title) {
    return std::ranges::find(kTitles, lower(trim(title))) != kTitles.end();
  };
  if (std::ranges::count_if(table.header, is_it) != 1) return;
  std::string& title = *std::ranges::find_if(table.header, is_it);
  warnings.push_back(concat(table.name, ": the column '", title, "' is read as 'path'"));
  title = "path";
}

// The files of folders by their names without suffix, where these are known ones.
class FilesByStem {
 public:
  // The only file of this name and some suffix; "" where there is none, or several, or the name has
  // one itself.
  std::string find(const std::filesystem::path& folder, const std::string& name) {
    const std::filesystem::path path(name);
    if (name.empty() || name_of_exam(path) != path.filename()) return "";
    const auto found = in(folder / path.parent_path()).equal_range(path.filename().string());
    if (found.first == found.second || std::next(found.first) != found.second) return "";
    return (path.parent_path() / found.first->second).generic_string();
  }

 private:
  using Names = std::multimap<std::string, std::string>;
  const Names& in(const std::filesystem::path& folder) {
    const auto [place, is_new] = folders_.try_emplace(folder);
    std::error_code error;
    if (is_new && std::filesystem::is_directory(status_of(folder, error)))
      for (const std::filesystem::path& path : entries_of(folder, error))
        if (std::string stem = name_of_exam(path); stem != path.filename())
          place->second.emplace(std::move(stem), path.filename().string());
    return place->second;
  }

  std::map<std::filesystem::path, Names> folders_;
};

std::string missing_column(const CsvTable& table, std::string_view own) {
  return concat(table.name, ": no column '", own, "'; the columns are: ", join(table.header, ", "),
                "; --columns ", own, "=NAME says which it is");
}

// Without a column 'exam' each file is one, if they are clips; the list does not lie where they do.
[[noreturn]] void refuse_list(const CsvTable& table, const std::filesystem::path& folder,
                              const std::string& name) {
  std::string where = "FOLDER";
  std::error_code error;
  FilesByStem files;
  for (const std::filesystem::path& path : entries_of(folder.empty() ? "." : folder, error))
    if (std::filesystem::is_directory(status_of(path, error)) &&
        (names_files(path, name) || !files.find(path, name).empty()))
      where = path.string();
  throw DataError(concat(missing_column(table, "exam"),
                         "; in a list of clips each is an exam, but none of these is there ('",
                         name, "' for one): --root ", where, " says where they lie"));
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
  take_file_names(table, warnings);
  return table;
}

std::size_t require_own_column(const CsvTable& table, std::string_view own) {
  if (const auto found = table.column(own)) return *found;
  throw DataError(missing_column(table, own));
}

// Windows parts paths by backslashes. Where a file of that name is there, it is meant.
std::vector<std::string> names_of_files(const CsvTable& table, const std::filesystem::path& folder,
                                        std::vector<std::string>& warnings) {
  const std::size_t path = require_own_column(table, "path");
  std::vector<std::string> names;
  std::size_t turned = 0, found = 0, completed = 0;
  std::string first, first_missing, first_completed;
  FilesByStem files;
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    std::string name = is_missing(table.rows[row][path]) ? "" : trim(table.rows[row][path]);
    if (std::string other = with_slashes(name);
        other != name && !names_files(folder, name) && names_files(folder, other)) {
      if (turned++ == 0) first = concat("'", name, "' as '", other, "'");
      name = std::move(other);
    }
    if (names_files(folder, name)) {
      ++found;
    } else if (std::string whole = files.find(folder, name); !whole.empty()) {
      if (completed++ == 0) first_completed = concat("'", name, "' is '", whole, "'");
      name = std::move(whole);
    } else if (first_missing.empty()) {
      first_missing = name;
    }
    names.push_back(std::move(name));
  }
  if (!table.column("exam") && !first_missing.empty() && found + completed == 0)
    refuse_list(table, folder, first_missing);
  if (turned > 0)
    warnings.push_back(concat(table.name, ": the paths of ", plural(turned, "row"),
                              " are Windows' and are read with /, ", first));
  if (completed > 0)
    warnings.push_back(concat(table.name, ": the paths of ", plural(completed, "row"),
                              " have no suffix; ", first_completed));
  return names;
}

}  // namespace coldframe::frames

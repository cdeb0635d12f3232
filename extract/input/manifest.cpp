#include <glob.h>
#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <vector>

#include "common/cli/error.h"
#include "common/files/csv.h"
#include "common/files/json.h"
#include "common/files/retry_policy.h"
#include "common/text/spelling.h"
#include "common/text/text.h"
#include "common/text/timestamp.h"
#include "extract/decode/exam_spec.h"
#include "extract/input/exam_list.h"
#include "extract/input/folder.h"

namespace coldframe::frames {

// The times that a manifest states for the frames of an exam.

// An exam while its rows are being read.
struct ManifestDraft {
  ExamSpec spec;
  std::vector<std::size_t> rows;                // of the table, one per item
  std::vector<std::optional<Timestamp>> times;  // one per item
  bool one_row = false;                         // it is a row's alone, perhaps of a folder
};

// Throws the DataError that names the row's line.
using RefuseRow = std::function<void(std::size_t row, const std::string& reason)>;

// Makes times relative to the exam's first item, sorts by them if the options say so, and refuses
// those that decrease otherwise. Sets ExamSpec::times_from_headers where none is stated.
void settle_times(ManifestDraft& draft, const ExamListOptions& options, const RefuseRow& refuse);

// A manifest's table as it is read: columns under the names that they have here, and files under
// the names that they have on this machine. What is taken to mean something else than it says comes
// as a warning.

bool is_own_column(std::string_view title);  // exam, path, frame, time, patient or crop

// ConfigError: a column of --columns that cannot be.
CsvTable read_manifest_table(const std::filesystem::path& path, const ExamListOptions& options,
                             std::vector<std::string>& warnings);

// DataError says which columns there are, and how to name this one.
std::size_t require_own_column(const CsvTable& table, std::string_view own);

// Of each row's file, "" where it is missing.
std::vector<std::string> names_of_files(const CsvTable& table, const std::filesystem::path& folder,
                                        std::vector<std::string>& warnings);

// The path of a manifest's row may stand for several files.

// Nothing when the path names one file, there or not, a folder without any exam, or a pattern that
// matches no file: then the row is a missing one. A folder stands for the one exam that it holds,
// its images in natural order or its DICOM series, and a pattern with *, ? or [ (where no file has
// that name) for the files that it matches, in the same order.
// DataError: a folder with several exams. What a folder holds and is skipped comes as warnings.
std::optional<ExamSpec> files_of_row(const ExamItem& row, const ExamListOptions& options,
                                     std::vector<std::string>& warnings);

// True for the name of a file or folder that is there, and for a pattern that matches one.
bool names_files(const std::filesystem::path& folder, const std::string& name);

namespace {

std::string in_words(const Timestamp& time, const Timestamp& first) {
  return concat(fixed(time.seconds - (time.absolute ? first.seconds : 0.0), 1), " s");
}

void sort_by_time(ManifestDraft& draft, const RefuseRow& refuse) {
  for (std::size_t i = 0; i < draft.rows.size(); ++i) {
    if (!draft.times[i])
      refuse(draft.rows[i], concat("exam '", draft.spec.id, "': frame ", i,
                                   " has no time, which --sort time needs of all or none"));
  }
  std::vector<std::size_t> order(draft.rows.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return draft.times[a]->seconds < draft.times[b]->seconds;
  });
  ManifestDraft sorted;
  for (const std::size_t i : order) {
    sorted.spec.items.push_back(std::move(draft.spec.items[i]));
    sorted.rows.push_back(draft.rows[i]);
    sorted.times.push_back(draft.times[i]);
  }
  draft.spec.items = std::move(sorted.spec.items);
  draft.rows = std::move(sorted.rows);
  draft.times = std::move(sorted.times);
}

}  // namespace

void settle_times(ManifestDraft& draft, const ExamListOptions& options, const RefuseRow& refuse) {
  const auto& times = draft.times;
  const auto known = [](const auto& time) { return time.has_value(); };
  const bool stated = std::any_of(times.begin(), times.end(), known);
  // What headers say of a folder's files or a pattern's is of use where nothing else is said.
  const OrderBasis& basis = draft.spec.basis;
  if (!stated && draft.one_row && !basis.order.empty() && !basis.names_alone) return;
  for (ExamItem& item : draft.spec.items) item.time_s = kNotStated;
  draft.spec.times_from_headers = !stated;
  if (!stated) return;
  if (options.sort_by_time) sort_by_time(draft, refuse);
  const std::string& id = draft.spec.id;
  if (!times.front()) {
    refuse(draft.rows.front(), concat("exam '", id, "' has times, but none for its first frame"));
  }
  const Timestamp first = *times.front();
  (first.absolute ? draft.spec.start_time : draft.spec.elapsed_start) = first.seconds;
  std::size_t before = 0;
  for (std::size_t i = 0; i < times.size(); ++i) {
    if (!times[i]) continue;
    if (times[i]->absolute != first.absolute) {
      refuse(draft.rows[i],
             concat("exam '", id,
                    "' mixes seconds with dates in column 'time'; write dates as YYYY-MM-DD"));
    }
    if (times[i]->seconds < times[before]->seconds && !options.allow_unordered) {
      refuse(draft.rows[i],
             concat("exam '", id, "': frame ", i, " has time ", in_words(*times[i], first),
                    " before frame ", before, " at ", in_words(*times[before], first),
                    "; sort the manifest, give --sort time or pass --allow-unordered"));
    }
    draft.spec.items[i].time_s = times[i]->seconds - first.seconds;
    before = i;
  }
}

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

// A CSV manifest: one row per frame or per file, grouped into exams by the column `exam`.

namespace {

class ManifestReader {
 public:
  ManifestReader(const std::filesystem::path& path, const ExamListOptions& options)
      : folder_(options.root.empty() ? path.parent_path() : options.root),
        options_(options),
        table_(read_manifest_table(path, options, warnings_)),
        exam_(table_.column("exam")),
        names_(names_of_files(table_, folder_, warnings_)),
        frame_(table_.column("frame")),
        time_(table_.column("time")),
        patient_(table_.column("patient")),
        crop_(table_.column("crop")) {
    choose_columns();
  }

  ExamList read() {
    if (table_.rows.empty()) throw DataError(concat("manifest '", table_.name, "' has no rows"));
    ExamList list;
    name_the_unnamed();
    for (std::size_t row = 0; row < table_.rows.size(); ++row) add_row(row);
    if (drafts_.empty())
      throw DataError(concat("manifest '", table_.name, "' names no image; ", warnings_.back()));
    for (const std::size_t column : frame_columns_) {
      list.frame_columns.push_back(table_.header[column]);
    }
    for (ManifestDraft& draft : drafts_) {
      settle_times(draft, options_,
                   [this](std::size_t row, const std::string& reason) { refuse(row, reason); });
      if (draft.spec.id_from_header && draft.spec.times_from_headers) order_by_headers(draft);
      list.exams.push_back(std::move(draft.spec));
    }
    list.warnings = std::move(warnings_);
    return list;
  }

 private:
  void choose_columns();
  void name_the_unnamed();
  FilePlace place_of(std::size_t row) const;
  void order_by_headers(ManifestDraft& draft) const;
  void add_row(std::size_t row);
  void check_constant(const ManifestDraft& draft, std::size_t row, std::size_t column) const;
  void check_unique(const std::string& exam, std::size_t row, const std::string& name);
  ExamItem make_item(std::size_t row) const;
  ExamSpec make_items(std::size_t row);
  void parse_range(std::size_t row, ExamItem& item) const;
  std::optional<CropRule> crop_of(std::size_t row) const;
  std::optional<Timestamp> time_of(std::size_t row) const;

  const std::string& value(std::size_t row, std::size_t column) const {
    return table_.rows[row][column];
  }
  std::string value(std::size_t row, const std::optional<std::size_t>& column) const {
    return column ? present(value(row, *column)) : std::string();
  }
  static std::string present(const std::string& text) {
    return is_missing(text) ? std::string() : trim(text);
  }
  [[noreturn]] void refuse(std::size_t row, const std::string& reason) const {
    throw DataError(concat(table_.name, ", line ", table_.lines[row], ": ", reason));
  }

  std::filesystem::path folder_;
  const ExamListOptions& options_;
  std::vector<std::string> warnings_;
  CsvTable table_;
  std::optional<std::size_t> exam_;
  std::vector<std::string> names_;  // of each row's file, "" where it is missing
  std::optional<std::size_t> frame_, time_, patient_, crop_, stream_;
  std::vector<std::size_t> frame_columns_, exam_columns_;
  std::vector<ManifestDraft> drafts_;
  std::unordered_map<std::string, std::size_t> draft_of_;
  std::map<std::array<std::string, 4>, std::size_t> seen_;  // (exam, path, frame, crop) -> row
  NamedExams named_;                                        // of files whose rows name no exam
};

void ManifestReader::choose_columns() {
  for (const std::string& name : options_.frame_columns) {
    if (is_own_column(name))
      throw ConfigError(concat("--frame-columns: '", name, "' has a meaning of its own"));
    frame_columns_.push_back(table_.require_column(name));
    if (name == options_.streams) stream_ = frame_columns_.back();
  }
  for (std::size_t column = 0; column < table_.header.size(); ++column) {
    const auto& name = table_.header[column];
    const bool per_frame =
        std::find(frame_columns_.begin(), frame_columns_.end(), column) != frame_columns_.end();
    if (!is_own_column(name) && !per_frame) exam_columns_.push_back(column);
  }
}

void ManifestReader::name_the_unnamed() {
  std::vector<ExamItem> files;
  for (std::size_t row = 0; row < table_.rows.size(); ++row) {
    if (!value(row, exam_).empty()) continue;
    ExamItem item = make_item(row);
    if (!item.name.empty() && !std::filesystem::is_directory(status_of(item.path)))
      files.push_back(std::move(item));
  }
  named_ = name_exams(files, options_.reader.grouping, warnings_);
}

FilePlace ManifestReader::place_of(std::size_t row) const {
  FilePlace place;
  place.exam = value(row, exam_);
  if (!place.exam.empty()) return place;
  const auto found = named_.places.find(names_[row]);
  if (found != named_.places.end() && (found->second.passed_over || !found->second.exam.empty()))
    return found->second;
  if (std::filesystem::is_directory(status_of(folder_ / names_[row]))) {
    place.exam = names_[row];
    while (place.exam.ends_with('/')) place.exam.pop_back();
    if (!place.exam.empty()) return place;
  }
  // In a list of clips each is an exam, as in a folder.
  if (!exam_ && !names_[row].empty() && !is_named_as_image(names_[row])) {
    std::filesystem::path path = names_[row];
    place.exam = path.replace_filename(name_of_exam(path)).generic_string();
    return place;
  }
  if (!exam_) require_own_column(table_, "exam");
  refuse(
      row,
      "column 'exam' is empty; every row names its exam, except those of DICOM files and folders");
}

// As a folder of the same files gives them. A row of some frames of its file keeps to these.
void ManifestReader::order_by_headers(ManifestDraft& draft) const {
  const ExamSpec& exam = named_.exams.at(draft.spec.id);
  std::multimap<std::string, ExamItem> rows;
  for (ExamItem& item : draft.spec.items) rows.emplace(item.name, std::move(item));
  draft.spec.items.clear();
  for (const ExamItem& part : exam.items) {
    const auto [first, last] = rows.equal_range(part.name);
    for (auto row = first; row != last; ++row) {
      ExamItem& item = row->second;
      if (item.path.empty()) continue;  // it has come
      draft.spec.items.push_back(item);
      draft.spec.items.back().time_s = part.time_s;
      if (item.first == 0 && item.last < 0) {
        draft.spec.items.back().first = part.first;
        draft.spec.items.back().last = part.last;
      } else {
        item.path.clear();
      }
    }
  }
  draft.spec.basis = exam.basis;
  draft.spec.times_from_headers = false;
}

void ManifestReader::add_row(std::size_t row) {
  const FilePlace from = place_of(row);
  if (from.passed_over) return;
  const std::string& exam = from.exam;
  if (std::any_of(exam.begin(), exam.end(), [](unsigned char c) { return c < ' '; })) {
    refuse(row, "column 'exam' holds a control character");
  }
  const auto [place, is_new] = draft_of_.try_emplace(exam, drafts_.size());
  if (is_new) {
    ManifestDraft draft;
    draft.spec.id = exam;
    draft.spec.id_from_header = from.from_header;
    draft.spec.patient = value(row, patient_);
    for (const std::size_t column : exam_columns_) {
      draft.spec.columns.emplace_back(table_.header[column], value(row, column));
    }
    drafts_.push_back(std::move(draft));
  }
  ManifestDraft& draft = drafts_[place->second];
  draft.spec.id_from_header = draft.spec.id_from_header && from.from_header;
  if (!is_new) {
    for (const std::size_t column : exam_columns_) check_constant(draft, row, column);
    if (patient_) check_constant(draft, row, *patient_);
  }
  const bool alone = draft.rows.empty();
  ExamSpec files = make_items(row);
  draft.spec.basis = alone ? files.basis : OrderBasis{.order = "the manifest"};
  for (ExamItem& item : files.items) {
    check_unique(exam, row, item.name);
    const bool first = draft.rows.empty() || draft.rows.back() != row;
    draft.spec.items.push_back(std::move(item));
    draft.times.push_back(first ? time_of(row) : std::nullopt);
    draft.rows.push_back(row);
  }
  draft.one_row = alone;
}

ExamSpec ManifestReader::make_items(std::size_t row) {
  const ExamItem item = make_item(row);
  std::optional<ExamSpec> files;
  try {
    files = files_of_row(item, options_, warnings_);
  } catch (const DataError& error) {
    refuse(row, error.what());
  }
  if (!files) {
    ExamSpec one;
    one.items.push_back(item);
    return one;
  }
  if (!value(row, frame_).empty())
    refuse(row, concat("'", item.name, "' stands for several files; leave its 'frame' empty"));
  for (ExamItem& each : files->items) {
    each.crop = item.crop;
    each.stream = item.stream;
    each.frame_columns = item.frame_columns;
  }
  return std::move(*files);
}

void ManifestReader::check_constant(const ManifestDraft& draft, std::size_t row,
                                    std::size_t column) const {
  const std::size_t first = draft.rows.front();
  if (value(row, column) == value(first, column)) return;
  if (is_missing(value(row, column)) && is_missing(value(first, column))) return;
  if (column == patient_ && spelt_alike(value(row, column), value(first, column))) return;
  refuse(row, concat("exam '", draft.spec.id, "' has ", table_.header[column], " '",
                     value(row, column), "' here and '", value(first, column), "' on line ",
                     table_.lines[first], "; make them equal, or name the column in ",
                     "--frame-columns if it belongs to the frames"));
}

void ManifestReader::check_unique(const std::string& exam, std::size_t row,
                                  const std::string& name) {
  if (name.empty()) return;  // several frames of an exam may be missing
  const std::string path = std::filesystem::path(name).lexically_normal();
  const auto [place, is_new] =
      seen_.try_emplace({exam, path, value(row, frame_), value(row, crop_)}, row);
  if (is_new) return;
  refuse(row,
         concat("exam '", exam, "' names '", name, "' again, as line ", table_.lines[place->second],
                " did; remove one of the two rows, or give each a 'crop' of its own"));
}

ExamItem ManifestReader::make_item(std::size_t row) const {
  ExamItem item;
  item.name = names_[row];
  if (!item.name.empty()) item.path = folder_ / std::filesystem::path(item.name);
  parse_range(row, item);
  item.crop = crop_of(row);
  for (const std::size_t column : frame_columns_) item.frame_columns.push_back(value(row, column));
  item.stream = value(row, stream_);
  return item;
}

// "" all frames, "7" one, "3-20" those from 3 to 20.
void ManifestReader::parse_range(std::size_t row, ExamItem& item) const {
  const std::string text = value(row, frame_);
  if (text.empty()) return;
  const auto parts = split(text, '-');
  bool valid = parts.size() <= 2 && parse_int(trim(parts.front()), item.first) &&
               parse_int(trim(parts.back()), item.last);
  valid = valid && item.first >= 0 && item.last >= item.first;
  if (!valid) {
    refuse(row, concat("column 'frame' holds '", text,
                       "'; expected an index such as 7 or a range such as 3-20, counted from 0"));
  }
  if (item.path.empty() && item.first != item.last) {
    refuse(row, "a row without a path stands for one missing frame; give it one index in 'frame'");
  }
}

std::optional<CropRule> ManifestReader::crop_of(std::size_t row) const {
  const std::string text = value(row, crop_);
  if (text.empty()) return std::nullopt;
  const auto crop = parse_crop(text);
  if (!crop) refuse(row, concat("column 'crop' holds '", text, "'; expected ", kCropHelp));
  return crop;
}

std::optional<Timestamp> ManifestReader::time_of(std::size_t row) const {
  const std::string text = value(row, time_);
  if (text.empty()) return std::nullopt;
  const auto time = parse_timestamp(text);
  if (!time) {
    refuse(row, concat("column 'time' holds '", text,
                       "'; expected seconds such as 12.5 or a date and time such as "
                       "2024-03-01T12:30:05",
                       text.find(':') == std::string::npos
                           ? ""
                           : " (without a date nothing tells minutes:seconds from hours:minutes)"));
  }
  return time;
}

}  // namespace

ExamList list_manifest(const std::filesystem::path& manifest, const ExamListOptions& options) {
  return ManifestReader(manifest, options).read();
}

// A split as MedNet writes it: JSON that gives the exams, or the frames, of each part.
//
//   {"train": [["a/1.jpg", 0], …], "validation": […], "test": […]}
//   {"train": [{"exam": "a", "label": 0, "frames": [{"file": "1.jpg", "elapsed_seconds": 58.0},
//   …]}, …], …}
//
// In the first form the images of a folder are an exam, in natural order. Source of both:
// MedNet 2.1.0, mednet/data/temporal/hyperftype_split.py.

namespace {

namespace fs = std::filesystem;

constexpr const char* kExpected =
    "expected a split: {\"train\": [[\"exam/1.jpg\", label], …], \"validation\": …, \"test\": …}, "
    "or "
    "lists of {\"exam\": \"folder\", \"label\": …, \"frames\": [{\"file\": \"1.jpg\", "
    "\"elapsed_seconds\": 58.0}, …]}";

class SplitReader {
 public:
  SplitReader(const fs::path& path, const ExamListOptions& options)
      : path_(path),
        root_(options.root.empty() ? path.parent_path() : options.root),
        options_(options) {}

  ExamList read() {
    const Json json = read_json_file(path_);
    if (!json.is_object() || json.empty()) refuse("", "it is no object of parts");
    for (const auto& [part, entries] : json.items()) {
      part_ = part;
      if (!is_part(part)) refuse("", concat("'", part, "' is no part (train, validation or test)"));
      if (!entries.is_array()) refuse(place(), "it is no list");
      number_ = 0;
      for (const Json& entry : entries) {
        ++number_;
        entry.is_array() ? add_frame(entry) : add_exam(entry);
      }
    }
    return finish();
  }

 private:
  static bool is_part(const std::string& name) {
    return name == "train" || name == "validation" || name == "val" || name == "valid" ||
           name == "test";
  }

  std::string place() const { return concat(" at ", part_, number_ ? concat(" ", number_) : ""); }

  [[noreturn]] void refuse(const std::string& where, const std::string& why) const {
    throw DataError(concat(path_.string(), where, ": ", why, "; ", kExpected));
  }

  std::string text_of(const Json& value, const char* what) const {
    if (value.is_string() && !value.get<std::string>().empty()) return value.get<std::string>();
    refuse(place(), concat(what, " is ", value.dump(), ", no text"));
  }

  // A number or a word, as a column holds it.
  std::string label_of(const Json& value) const {
    if (value.is_string()) return value.get<std::string>();
    if (value.is_number() || value.is_boolean()) return value.dump();
    refuse(place(), concat("the label is ", value.dump(), ", neither a number nor a text"));
  }

  ManifestDraft& draft_of(const std::string& exam, const std::string& label, bool may_stand) {
    const auto [found, is_new] = draft_of_.try_emplace(exam, drafts_.size());
    if (is_new) {
      ManifestDraft draft;
      draft.spec.id = exam;
      draft.spec.columns = {{"split", part_}, {"label", label}};
      drafts_.push_back(std::move(draft));
    } else if (!may_stand) {
      refuse(place(), concat("exam '", exam, "' is there a second time"));
    }
    return drafts_[found->second];
  }

  void add_item(ManifestDraft& draft, const std::string& name, std::optional<Timestamp> time) {
    if (!seen_.insert(name).second) refuse(place(), concat("'", name, "' is there a second time"));
    ExamItem item;
    item.name = name;
    item.path = root_ / fs::path(name);
    draft.rows.push_back(draft.spec.items.size());
    draft.spec.items.push_back(std::move(item));
    draft.times.push_back(time);
  }

  // ["a/1.jpg", 0]
  void add_frame(const Json& entry) {
    if (entry.size() != 2) refuse(place(), concat("it is ", shown(entry), ", no [path, label]"));
    const std::string name = text_of(entry[0], "the path"), label = label_of(entry[1]);
    const std::string exam = fs::path(name).parent_path().generic_string();
    lists_frames_alone_ = true;
    if (exam.empty())
      refuse(place(), concat("'", name, "' lies in no folder, which would name its exam"));
    ManifestDraft& draft = draft_of(exam, label, true);
    const auto& columns = draft.spec.columns;
    if (columns[0].second != part_ || columns[1].second != label)
      throw DataError(concat(path_.string(), place(), ": exam '", exam, "' has label ", label,
                             " in ", part_, " here, and label ", columns[1].second, " in ",
                             columns[0].second,
                             " before; give all frames of a folder one label and one part"));
    add_item(draft, name, std::nullopt);
  }

  // {"exam": "a", "label": 0, "frames": […]}
  void add_exam(const Json& entry) {
    for (const char* key : {"exam", "label", "frames"})
      if (!entry.is_object() || !entry.contains(key))
        refuse(place(), concat("it is ", shown(entry), ", without '", key, "'"));
    const std::string exam = text_of(entry["exam"], "the exam");
    ManifestDraft& draft = draft_of(exam, label_of(entry["label"]), false);
    if (!entry["frames"].is_array() || entry["frames"].empty())
      refuse(place(), concat("exam '", exam, "' has no list of frames"));
    for (const Json& frame : entry["frames"]) {
      const bool has_facts = frame.is_object() && frame.contains("file");
      const std::string file = text_of(has_facts ? frame["file"] : frame, "a frame");
      add_item(draft, (fs::path(exam) / file).generic_string(),
               has_facts ? time_of(frame) : std::nullopt);
    }
  }

  std::optional<Timestamp> time_of(const Json& frame) const {
    const auto found = frame.find("elapsed_seconds");
    if (found == frame.end() || found->is_null()) return std::nullopt;
    if (!found->is_number()) refuse(place(), concat("a time is ", found->dump(), ", no number"));
    return Timestamp{found->get<double>(), false};
  }

  static std::string shown(const Json& entry) {
    constexpr std::size_t kShown = 80;
    const std::string text = entry.dump(-1, ' ', true, Json::error_handler_t::replace);
    return text.size() > kShown ? text.substr(0, kShown) + "…" : text;
  }

  ExamList finish() {
    ExamList list;
    for (ManifestDraft& draft : drafts_) {
      settle_times(draft, options_, [&](std::size_t, const std::string& reason) {
        throw DataError(concat(path_.string(), ": ", reason));
      });
      if (lists_frames_alone_)
        std::ranges::stable_sort(draft.spec.items, natural_less, &ExamItem::name);
      list.exams.push_back(std::move(draft.spec));
    }
    if (list.exams.empty()) refuse("", "its parts are empty");
    return list;
  }

  const fs::path path_, root_;
  const ExamListOptions& options_;
  std::string part_;
  std::size_t number_ = 0;           // of the entry in its part, from 1
  bool lists_frames_alone_ = false;  // the first form
  std::vector<ManifestDraft> drafts_;
  std::map<std::string, std::size_t> draft_of_;
  std::set<std::string> seen_;  // names of files
};

}  // namespace

ExamList list_split(const fs::path& split, const ExamListOptions& options) {
  return SplitReader(split, options).read();
}

}  // namespace coldframe::frames

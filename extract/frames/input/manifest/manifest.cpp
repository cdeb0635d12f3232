// A CSV manifest: one row per frame or per file, grouped into exams by the column `exam`.
#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <unordered_map>

#include "common/cli/error.h"
#include "common/files/csv.h"
#include "common/files/retry_policy.h"
#include "common/text/spelling.h"
#include "common/text/text.h"
#include "extract/frames/input/crop_rule.h"
#include "extract/frames/input/exam_list.h"
#include "extract/frames/input/exam_names.h"
#include "extract/frames/input/file_name.h"
#include "extract/frames/input/manifest/row_files.h"
#include "extract/frames/input/manifest/table.h"
#include "extract/frames/input/manifest/times.h"

namespace coldframe::frames {
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

}  // namespace coldframe::frames

#include "cache/tool/exchange/import_tables.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>

#include "cache/tool/exchange/tables.h"
#include "common/cli/error.h"
#include "common/text/text.h"
#include "common/text/timestamp.h"

namespace coldframe::cache::tool {
namespace {

// A table that `export` wrote, with its columns in any order. DataError: it has the two of them
// that no table has by chance, and not all.
bool is_exported(const CsvTable& table, const std::vector<std::string>& columns,
                 const std::array<const char*, 2>& telling) {
  const auto has = [&](const std::string& name) { return table.column(name).has_value(); };
  const auto absent = std::ranges::find_if_not(columns, has);
  if (absent == columns.end()) return true;
  if (!std::ranges::all_of(telling, has)) return false;
  throw DataError(concat(table.name, " has the columns '", telling[0], "' and '", telling[1],
                         "' of a table that `coldframe cache export` wrote, and not '", *absent,
                         "'; put that back, or give these two other names"));
}

bool is_frame_table(const CsvTable& table) {
  return is_exported(table, kFrameTable, {"slot", "time_s"});
}

bool is_exam_table(const CsvTable& table) {
  return is_exported(table, kExamTable, {"offset", "source_kind"});
}

[[noreturn]] void refuse_row(const CsvTable& table, std::size_t row, const std::string& reason) {
  throw DataError(concat(table.name, ", line ", table.lines[row], ": ", reason));
}

// NaN for an empty field.
double read_seconds(const CsvTable& table, std::size_t row, std::size_t column) {
  const std::string text = trim(table.rows[row][column]);
  double seconds = kUnknownTime;
  if (!text.empty() && (!parse_double(text, seconds) || !(std::abs(seconds) <= kMostSeconds)))
    refuse_row(table, row,
               concat("column '", table.header[column], "' holds '", text, "'; expected seconds"));
  return seconds;
}

// Seconds or a date; nothing for an empty field.
std::optional<Timestamp> read_time(const CsvTable& table, std::size_t row, std::size_t column) {
  const std::string text = trim(table.rows[row][column]);
  if (text.empty()) return std::nullopt;
  const auto time = parse_timestamp(text);
  if (!time)
    refuse_row(table, row,
               concat("column '", table.header[column], "' holds '", text,
                      "'; expected seconds such as 12.5 or a date and time such as "
                      "2024-03-01T12:30:05"));
  return time;
}

std::int64_t read_count(const CsvTable& table, std::size_t row, std::size_t column,
                        const char* expected,
                        std::int64_t most = std::numeric_limits<std::int64_t>::max()) {
  std::int64_t count = 0;
  if (!parse_int(trim(table.rows[row][column]), count) || count < 0 || count > most)
    refuse_row(table, row,
               concat("column '", table.header[column], "' holds '", table.rows[row][column],
                      "'; expected ", expected));
  return count;
}

std::string read_id(const CsvTable& table, std::size_t row, std::size_t column) {
  std::string id = trim(table.rows[row][column]);
  if (id.empty()) refuse_row(table, row, "column 'exam' is empty; every row names its exam");
  return id;
}

}  // namespace

ImportTables::ImportTables(const std::vector<std::filesystem::path>& paths,
                           const std::vector<std::string>& frame_columns) {
  read_tables(paths);
  find_frame_roles(frame_columns);
  find_exams();
  if (!exams_table_) return;
  find_exam_roles();
  match_exams();
}

// `export` writes two tables, which the shell names in either order.
void ImportTables::read_tables(const std::vector<std::filesystem::path>& paths) {
  frames_ = read_csv(paths.front());
  if (paths.size() > 1) exams_table_ = read_csv(paths[1]);
  if (exams_table_ && is_frame_table(*exams_table_)) std::swap(frames_, *exams_table_);
  if (is_exam_table(frames_))
    throw DataError(concat(frames_.name,
                           " is the table of exams that `coldframe cache export` "
                           "wrote; name that of the frames too"));
  if (frames_.rows.empty()) throw DataError(concat(frames_.name, " has no rows"));
  frames_exported_ = is_frame_table(frames_);
}

void ImportTables::find_frame_roles(const std::vector<std::string>& frame_columns) {
  FrameRoles& roles = frame_roles_;
  std::vector<std::size_t> others;
  for (const std::string& name : frame_columns)
    roles.of_frame.push_back(frames_.require_column(name));
  frames_.require_column("exam");
  if (frames_exported_) {
    roles.times_are_relative = true;
    roles.time = frames_.column("time_s");
    roles.present = frames_.column("present");
    roles.index = frames_.column("index");
    roles.source = frames_.column("source");
  } else {
    roles.index = frames_.column("frame");
    roles.time = frames_.column("time");
    roles.patient = frames_.column("patient");
  }
  for (std::size_t c = 0; c < frames_.header.size(); ++c) {
    const std::string& name = frames_.header[c];
    const bool ours = frames_exported_ ? is_ours(name, kFrameTable)
                                       : name == "exam" || c == roles.index || c == roles.time ||
                                             c == roles.patient;
    if (ours || std::count(roles.of_frame.begin(), roles.of_frame.end(), c) != 0) continue;
    (frames_exported_ || exams_table_ ? roles.of_frame : roles.of_exam).push_back(c);
  }
}

void ImportTables::find_exam_roles() {
  ExamRoles& roles = exam_roles_;
  const bool exported = is_exam_table(*exams_table_);
  roles.patient = exams_table_->column("patient");
  if (exported) {
    roles.frames = exams_table_->column("frames");
    roles.start_time = exams_table_->column("start_time");
    roles.elapsed_start = exams_table_->column(kElapsedColumn);
    roles.kind = exams_table_->column("source_kind");
    roles.width = exams_table_->column("width");
    roles.height = exams_table_->column("height");
  }
  for (std::size_t c = 0; c < exams_table_->header.size(); ++c) {
    const std::string& name = exams_table_->header[c];
    const bool ours = exported ? is_ours(name, kExamTable) : name == "exam" || name == "patient";
    if (!ours) roles.columns.push_back(c);
  }
}

void ImportTables::find_exams() {
  const std::size_t column = frames_.require_column("exam");
  for (std::size_t row = 0; row < frames_.rows.size(); ++row) {
    const std::string id = read_id(frames_, row, column);
    const auto [place, is_new] = places_.emplace(id, exams_.size());
    if (is_new) exams_.push_back({id, {}, 0});
    exams_[place->second].rows.push_back(row);
  }
}

// Both tables have the same exams.
void ImportTables::match_exams() {
  const CsvTable& table = *exams_table_;
  const std::size_t column = table.require_column("exam");
  std::vector<bool> found(exams_.size());
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    const std::string id = read_id(table, row, column);
    const auto place = places_.find(id);
    if (place == places_.end())
      refuse_row(table, row, concat("exam '", id, "' has no frame in ", frames_.name));
    if (found[place->second]) refuse_row(table, row, concat("exam '", id, "' has two rows"));
    found[place->second] = true;
    exams_[place->second].row = row;
    const std::size_t frames = exams_[place->second].rows.size();
    if (exam_roles_.frames && trim(table.rows[row][*exam_roles_.frames]) != concat(frames))
      refuse_row(table, row,
                 concat("exam '", id, "' has ", table.rows[row][*exam_roles_.frames],
                        " frames here and ", frames, " in ", frames_.name));
  }
  for (const Exam& exam : exams_)
    if (!found[places_.at(exam.id)])
      throw DataError(
          concat(table.name, ": exam '", exam.id, "' is missing, which ", frames_.name, " has"));
}

const std::string& ImportTables::constant(const Exam& exam, std::size_t column) const {
  const std::string& first = frames_.rows[exam.rows[0]][column];
  for (const std::size_t row : exam.rows)
    if (frames_.rows[row][column] != first)
      refuse_row(frames_, row,
                 concat("exam '", exam.id, "' has ", frames_.header[column], " '",
                        frames_.rows[row][column], "' here and '", first, "' on line ",
                        frames_.lines[exam.rows[0]],
                        "; make them equal, or name the column in --frame-columns"));
  return first;
}

void ImportTables::fill_frame(ExamInfo& info, std::size_t row, const FeatureFile& features,
                              std::span<float> values) const {
  const FrameRoles& roles = frame_roles_;
  features.read_row(row, values);
  const auto missing = static_cast<std::size_t>(
      std::count_if(values.begin(), values.end(), [](float v) { return std::isnan(v); }));
  if (missing != 0 && missing != values.size())
    refuse_row(frames_, row,
               concat("exam '", info.id, "': ", missing, " of ", values.size(),
                      " features are NaN; a missing frame is a row of NaN only"));
  const bool present = missing == 0;
  if (roles.present && trim(frames_.rows[row][*roles.present]) != (present ? "1" : "0"))
    refuse_row(frames_, row,
               concat("exam '", info.id, "': the features say that the frame is ",
                      present ? "there" : "missing", ", the table that it is not"));
  const auto slot = static_cast<std::int64_t>(info.present.size());
  info.present.push_back(present);
  const bool relative = roles.time && roles.times_are_relative;
  info.time_s.push_back(relative ? read_seconds(frames_, row, *roles.time) : kUnknownTime);
  info.frame_index.push_back(
      roles.index ? read_count(frames_, row, *roles.index, "the frame's index, counted from 0")
                  : slot);
  info.frame_source.push_back(roles.source ? frames_.rows[row][*roles.source] : "");
}

void ImportTables::fill_from_frames(const Exam& exam, ExamInfo& info) const {
  const FrameRoles& roles = frame_roles_;
  if (roles.patient) info.patient = constant(exam, *roles.patient);
  for (const std::size_t column : roles.of_exam)
    info.columns.push_back({frames_.header[column], constant(exam, column)});
  for (const std::size_t column : roles.of_frame) {
    const std::string& name = frames_.header[column];
    info.frame_columns.push_back({frames_exported_ ? name_in_input(name, kFrameTable) : name, {}});
    for (const std::size_t row : exam.rows)
      info.frame_columns.back().values.push_back(frames_.rows[row][column]);
  }
  if (roles.time && !roles.times_are_relative) fill_times(exam, info);
}

// Seconds since the first frame, if that frame's time is known.
void ImportTables::fill_times(const Exam& exam, ExamInfo& info) const {
  const std::size_t column = *frame_roles_.time;
  const auto first = read_time(frames_, exam.rows[0], column);
  if (first) (first->absolute ? info.start_time : info.elapsed_start) = first->seconds;
  for (std::size_t t = 0; t < exam.rows.size(); ++t) {
    const auto time = read_time(frames_, exam.rows[t], column);
    if (!time || !first) continue;
    if (time->absolute != first->absolute)
      refuse_row(frames_, exam.rows[t],
                 concat("exam '", info.id, "' mixes seconds with dates in column '",
                        frames_.header[column], "'; write dates as YYYY-MM-DD"));
    info.time_s[t] = time->seconds - first->seconds;
  }
}

void ImportTables::fill_from_exams(const Exam& exam, ExamInfo& info) const {
  const CsvTable& table = *exams_table_;
  const ExamRoles& roles = exam_roles_;
  const bool exported = roles.kind.has_value();
  const std::vector<std::string>& row = table.rows[exam.row];
  if (roles.patient) info.patient = row[*roles.patient];
  if (exported) {
    info.start_time = read_seconds(table, exam.row, *roles.start_time);
    if (roles.elapsed_start)
      info.elapsed_start = read_seconds(table, exam.row, *roles.elapsed_start);
    info.source_kind = row[*roles.kind];
    const auto pixels = [&](std::size_t column) {
      return static_cast<std::int32_t>(
          read_count(table, exam.row, column, "pixels", std::numeric_limits<std::int32_t>::max()));
    };
    info.frame_width = pixels(*roles.width);
    info.frame_height = pixels(*roles.height);
  }
  for (const std::size_t column : roles.columns) {
    const std::string& name = table.header[column];
    info.columns.push_back({exported ? name_in_input(name, kExamTable) : name, row[column]});
  }
}

ExamFeatures ImportTables::exam(std::size_t place, const FeatureFile& features) const {
  const Exam& exam = exams_[place];
  ExamFeatures made;
  ExamInfo& info = made.info;
  info.id = exam.id;
  info.ordinal = place;
  info.source_kind = "imported";
  const std::size_t dimension = features.columns();
  made.views.push_back({"clean", std::vector<float>(exam.rows.size() * dimension)});
  for (std::size_t t = 0; t < exam.rows.size(); ++t)
    fill_frame(info, exam.rows[t], features,
               std::span(made.views[0].values).subspan(t * dimension, dimension));
  fill_from_frames(exam, info);
  if (exams_table_) fill_from_exams(exam, info);
  return made;
}

}  // namespace coldframe::cache::tool

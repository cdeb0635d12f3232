#include "cache/format/exam.h"

#include <algorithm>
#include <cmath>

#include "common/text/text.h"

namespace coldframe::cache {

std::size_t present_frames(const ExamInfo& exam) {
  const auto is_there = [](std::uint8_t present) { return present != 0; };
  return static_cast<std::size_t>(std::ranges::count_if(exam.present, is_there));
}

std::size_t missing_frames(const ExamInfo& exam) {
  return exam.frames() - present_frames(exam);
}

const std::string& column_value(const ExamInfo& exam, const std::string& column) {
  static const std::string kNone;
  const auto found = std::ranges::find(exam.columns, column, &ExamColumn::name);
  return found == exam.columns.end() ? kNone : found->value;
}

std::vector<std::string> column_names(std::span<const ExamInfo> exams) {
  std::vector<std::string> names;
  for (const ExamInfo& exam : exams)
    for (const ExamColumn& column : exam.columns)
      if (std::ranges::find(names, column.name) == names.end()) names.push_back(column.name);
  return names;
}

const FrameColumn* frame_column(const ExamInfo& exam, const std::string& name) {
  const auto found = std::ranges::find(exam.frame_columns, name, &FrameColumn::name);
  return found == exam.frame_columns.end() ? nullptr : &*found;
}

namespace {

ColumnType type_of(const std::string& value) {
  const std::size_t digits = value.starts_with('-') ? 1 : 0;
  const bool padded = value.size() > digits + 1 && value[digits] == '0' &&
                      value[digits + 1] >= '0' && value[digits + 1] <= '9';
  std::int64_t integer = 0;
  double number = 0;
  if (padded) return ColumnType::kText;
  if (parse_int(value, integer)) return ColumnType::kInteger;
  return parse_double(value, number) && std::isfinite(number) ? ColumnType::kNumber
                                                              : ColumnType::kText;
}

}  // namespace

const char* column_type_name(ColumnType type) {
  return type == ColumnType::kInteger ? "integer" : type == ColumnType::kNumber ? "number" : "text";
}

ColumnType infer_type(const std::vector<std::string>& values) {
  ColumnType type = ColumnType::kInteger;
  bool any = false;
  for (const std::string& value : values) {
    if (is_missing(value)) continue;
    any = true;
    type = std::max(type, type_of(trim(value)));
    if (type == ColumnType::kText) break;
  }
  return any ? type : ColumnType::kText;
}

ColumnType infer_type(const std::vector<ExamInfo>& exams, const std::string& column) {
  std::vector<std::string> values;
  for (const ExamInfo& exam : exams) values.push_back(column_value(exam, column));
  return infer_type(values);
}

std::string_view split_part(std::string_view word) {
  const std::string plain = lower(trim(word));
  if (plain == "train" || plain == "training") return "train";
  if (plain == "val" || plain == "valid" || plain == "validation") return "validation";
  return plain == "test" ? "test" : "";
}

}  // namespace coldframe::cache

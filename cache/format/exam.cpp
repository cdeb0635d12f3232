#include "cache/format/exam.h"

#include <algorithm>

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

}  // namespace coldframe::cache

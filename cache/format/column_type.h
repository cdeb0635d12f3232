// Columns are text in the files; what they mean is inferred over a whole cache.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cache/format/exam.h"

namespace coldframe::cache {

enum class ColumnType { kInteger, kNumber, kText };
const char* column_type_name(ColumnType type);  // "integer", "number", "text"

// Missing values (is_missing()) do not count. "007" is text: as a number it would lose its zeros.
ColumnType infer_type(const std::vector<std::string>& values);
ColumnType infer_type(const std::vector<ExamInfo>& exams, const std::string& column);

// The column of exams that parts them for training, and what its words mean: "train", "validation"
// or "test"; "" for another word.
inline constexpr const char* kSplitColumn = "split";
std::string_view split_part(std::string_view word);

}  // namespace coldframe::cache

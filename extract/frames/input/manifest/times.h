// The times that a manifest states for the frames of an exam.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/text/timestamp.h"
#include "extract/frames/input/exam_list.h"

namespace coldframe::frames {

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

}  // namespace coldframe::frames

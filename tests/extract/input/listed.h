// Manifests of a temporary folder as exams.
#pragma once

#include <string_view>

#include "extract/input/exam_list.h"
#include "tests/support/temporary_folder.h"

namespace coldframe::frames {

inline constexpr std::string_view kPngSignature = "\x89PNG\r\n\x1a\n";

inline ExamListOptions as_named() {
  ExamListOptions options;
  options.reader.keep_patient_id = true;
  return options;
}

inline ExamList list(const testing::TemporaryFolder& folder, std::string_view csv,
                     const ExamListOptions& options = {}) {
  return list_exams(folder.write("exams.csv", csv), options);
}

}  // namespace coldframe::frames

// Tells whether the sources of a cached exam still are what its features were computed from.
#pragma once

#include <string>

#include "cache/format/exam.h"
#include "extract/frames/input/exam_list.h"

namespace coldframe::extract {

// kMetadata: the same pixels, though names, times or the files' dates may differ.
enum class Freshness { kUnreadable, kMetadata, kStale };

struct Comparison {
  Freshness freshness;
  std::string stamp;       // of the sources as they are now
  std::string fault = {};  // kUnreadable: why
};

// Reads the files' content only when nothing cheaper decides.
Comparison compare_sources(const frames::ExamSpec& exam, const cache::ExamInfo& cached);

}  // namespace coldframe::extract

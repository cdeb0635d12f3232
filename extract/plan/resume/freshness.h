// Tells whether the sources of a cached exam still are what its features were computed from.
#pragma once

#include <string>

#include "cache/format/exam.h"
#include "extract/frames/input/exam_list.h"

namespace coldframe::extract {

// kMetadata: the same pixels, though names, times or the files' dates may differ. kStale: other
// frames or parts of the same files. kChanged: files of other content.
enum class Freshness { kUnreadable, kMetadata, kStale, kChanged };

struct Comparison {
  Freshness freshness;
  std::string stamp;       // of the sources as they are now
  std::string fault = {};  // kUnreadable: why
};

// Reads the files' content only when nothing cheaper decides.
Comparison compare_sources(const frames::ExamSpec& exam, const cache::ExamInfo& cached);

// Says what the cache and what the input have under the exam's id where these are two exams, to
// whose labels and predictions one id cannot answer: the content is another's, and so are the
// patient or the names of all files. "" where it is the same exam, whose files may have changed.
std::string clash_of_ids(const frames::ExamSpec& exam, Freshness freshness,
                         const cache::ExamInfo& cached);

}  // namespace coldframe::extract

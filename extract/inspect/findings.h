// Finds problems in the input that deserve attention before a long job.
#pragma once

#include <string>
#include <vector>

#include "extract/input/exam_list.h"
#include "extract/inspect/survey.h"

namespace coldframe::extract::dry_run {

struct FindingCase {
  std::vector<std::string> exams;
  std::string detail;
};

struct Finding {
  std::string kind;    // a word for programs: "unreadable", "duplicate_times", …
  std::string title;   // "cannot be extracted"
  std::string advice;  // what to do, one sentence
  std::vector<FindingCase> cases;
};

// Only actual findings, the most severe first.
std::vector<Finding> find_all(const frames::ExamList& input, const Survey& survey,
                              bool allow_unordered);

// What the names of files give away: frames of several patients in one exam, masks next to images.

// Two findings, either of which may be without a case. Names such as "pat1_1" and "pat2_1" count
// frames anew for another number before; "x_mask" is the mask of "x" where that is there as well.
std::vector<Finding> look_at_file_names(const frames::ExamList& input);

}  // namespace coldframe::extract::dry_run

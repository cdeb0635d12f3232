// Points out what in the input somebody should look at before a long job.
#pragma once

#include <string>
#include <vector>

#include "extract/inspect/dry_run/survey.h"

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

// Only those that were found, the gravest first.
std::vector<Finding> find_all(const frames::ExamList& input, const Survey& survey,
                              bool allow_unordered);

}  // namespace coldframe::extract::dry_run

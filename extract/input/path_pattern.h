// --exam-from: extracts exam and patient ids from paths.
#pragma once

#include <memory>
#include <string>

#include "extract/input/exam_list.h"

namespace coldframe::frames {

// A regular expression (ECMAScript's, without back-references) that may match anywhere in a path,
// with the groups `(?<exam>…)` (required) and `(?<patient>…)`; `(?P<exam>…)` is equivalent.
// Matching takes polynomial time because the pattern is user input.
class PathPattern {
 public:
  explicit PathPattern(const std::string& pattern);  // ConfigError: what is wrong with it
  ~PathPattern();

  struct Names {
    std::string exam, patient;
  };
  // False if the pattern does not match or its exam is empty.
  bool match(const std::string& path, Names& names) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Names a folder's exams by the pattern, which matches paths of image folders and clips without
// suffix. If a folder of images does not match, matches each of its files; those with the same name
// form an exam. Exams named by headers keep their ids. DataError: a path does not match, or two
// exams get the same id.
void name_by_pattern(const PathPattern& pattern, ExamList& list);

}  // namespace coldframe::frames

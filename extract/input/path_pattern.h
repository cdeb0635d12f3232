// --exam-from: exams and patients out of paths.
#pragma once

#include <memory>
#include <string>

#include "extract/input/exam_list.h"

namespace coldframe::frames {

// A regular expression (ECMAScript's, without back-references) that finds its groups anywhere in a
// path: `(?<exam>…)`, which it must have, and `(?<patient>…)`; `(?P<exam>…)` is the same. Matching
// takes polynomial time, for the pattern comes from a person.
class PathPattern {
 public:
  explicit PathPattern(const std::string& pattern);  // ConfigError: what is wrong with it
  ~PathPattern();

  struct Names {
    std::string exam, patient;
  };
  // False when the pattern does not match, or its exam is empty.
  bool match(const std::string& path, Names& names) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Names a folder's exams by the pattern: those of images and clips by their path without suffix.
// Where a folder of images does not match, each of its files is matched, and those of one name form
// an exam. Exams that headers name stay as they are. DataError: a path that does not match, or two
// exams that would have one id.
void name_by_pattern(const PathPattern& pattern, ExamList& list);

}  // namespace coldframe::frames

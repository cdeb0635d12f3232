// The same picture in two exams: a copy, a wrong id, or a patient on both sides of a split.
#pragma once

#include <string>
#include <vector>

#include "extract/inspect/dry_run/survey.h"

namespace coldframe::extract::dry_run {

struct SameImage {
  std::vector<std::size_t> exams;  // indices into the input, ascending, two or more
  bool patients_differ = false;    // two different known patients are among them
  std::string where;               // a file's name, or "sampled frames"
};

// Finds exams that share images, by files of equal content (compared as far as sizes and first
// kilobytes leave it open) and by equal pixels of the sampled frames. An exam that names other
// frames of the same file is not meant. Returns one entry per set of exams.
std::vector<SameImage> find_same_images(const frames::ExamList& input, const Survey& survey);

}  // namespace coldframe::extract::dry_run

// Records how an exam's sources look when it is extracted, so that a later run can tell whether
// they are the same.
#pragma once

#include <string>

#include "extract/frames/input/exam_list.h"

namespace coldframe::extract {

// Name and content of the files, which frames of them and which part of each, and when the input
// says that they were made.
struct ExamStamp {
  std::string files, ranges, times;
};

ExamStamp stamp_of(const frames::ExamSpec& exam);  // DataError when a file cannot be looked at
std::string stamp_of_times(const frames::ExamSpec& exam);
std::string digest_of_names(const frames::ExamSpec& exam);  // of its files
std::string names_part(const ExamStamp& stamp);             // that digest, in `files`

// As the cache stores it (to_text(stamp_of(exam))), and back; three empty texts from what is no
// stamp.
std::string exam_stamp(const frames::ExamSpec& exam);
std::string to_text(const ExamStamp& stamp);
ExamStamp parse_stamp(const std::string& text);

}  // namespace coldframe::extract

// Exams that are read as one with earlier ones, so that a sequence spans several visits.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "cache/format/exam.h"

namespace coldframe::temporal {

struct JoinedExams {
  std::vector<cache::ExamInfo> exams;           // of a cache, each with the frames of all its parts
  std::vector<std::vector<std::size_t>> parts;  // [exam] in the order of frames; the last is itself
};

// `parts`: of every exam, by index, the last being the exam itself. `begin_s`: when each exam
// began, in seconds. A frame's time is its own within its part plus the part's begin; of a part
// without known times the first frame has the begin. Frames keep their values per frame and their
// files, but no index, which means nothing across sources. An exam that is its only part stays as
// it is.
JoinedExams join_exams(std::span<const cache::ExamInfo> exams,
                       std::vector<std::vector<std::size_t>> parts,
                       std::span<const double> begin_s);

}  // namespace coldframe::temporal

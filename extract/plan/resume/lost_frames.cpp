#include "extract/plan/resume/lost_frames.h"

#include <algorithm>

namespace coldframe::extract {

std::size_t frames_held(const cache::ExamInfo& exam) {
  return static_cast<std::size_t>(std::count(exam.present.begin(), exam.present.end(), 1));
}

std::unordered_set<std::string_view> with_lost_frames(const cache::CacheReader* cached) {
  std::unordered_set<std::string_view> exams;
  if (!cached) return exams;
  for (const cache::Failure& failure : cached->failures()) {
    const std::size_t index = cached->find(failure.exam);
    if (index != cache::CacheReader::npos && is_of_frames(failure, cached->exams()[index]))
      exams.insert(failure.exam);
  }
  return exams;
}

}  // namespace coldframe::extract

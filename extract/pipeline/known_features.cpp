#include "extract/pipeline/known_features.h"

namespace coldframe::extract {
namespace {

bool are_selected(const cache::ExamInfo& before, const frames::OpenedExam& opened,
                  std::span<const std::int64_t> selected) {
  if (before.frames() != selected.size()) return false;
  for (std::size_t slot = 0; slot < selected.size(); ++slot) {
    const auto& now = opened.slots()[static_cast<std::size_t>(selected[slot])];
    if (before.present[slot] != 0 && before.frame_index[slot] != now.index) return false;
  }
  return true;
}

}  // namespace

KnownFeatures known_features(const ReusableExam& reusable, const frames::OpenedExam& opened,
                             std::span<const std::int64_t> selected) {
  if (reusable.cache == nullptr) return {};
  const cache::ExamInfo& before = reusable.cache->exams()[reusable.exam];
  if (!are_selected(before, opened, selected)) return {};
  KnownFeatures known{{}, before.present};
  for (std::size_t view = 0; view < reusable.views; ++view)
    known.views.push_back(reusable.cache->features(reusable.exam, reusable.cache->views()[view]));
  return known;
}

}  // namespace coldframe::extract

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
  const cache::CacheReader& cache = *reusable.cache;
  const cache::ExamInfo& before = cache.exams()[reusable.exam];
  if (!are_selected(before, opened, selected)) return {};
  KnownFeatures known{{}, before.present};
  for (std::size_t view = 0; view < reusable.views; ++view) {
    known.views.push_back(cache.features(reusable.exam, cache.views()[view]));
    if (!cache.cut()) continue;
    known.cuts.emplace_back(before.frames() * cache.cut()->row_bytes());
    cache.read_cut(reusable.exam, view, known.cuts.back());
  }
  return known;
}

}  // namespace coldframe::extract

// Features of an exam that need not be computed, since another cache has them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "extract/frames/opened_exam.h"
#include "extract/plan/resume/resume.h"

namespace coldframe::extract {

struct KnownFeatures {
  std::vector<std::vector<float>> views;  // of the first views, [T, D] each
  std::vector<std::uint8_t> slots;        // [T] 1: of this frame they are known
  // Likewise what enters the cut, as stored; {}: the cache keeps none.
  std::vector<std::vector<std::byte>> cuts = {};

  // Counts a frame's views that are known.
  std::size_t of_slot(std::size_t slot) const {
    return slot < slots.size() && slots[slot] != 0 ? views.size() : 0;
  }
};

// Empty when the other cache has none, or has other frames than those selected. CacheError.
KnownFeatures known_features(const ReusableExam& reusable, const frames::OpenedExam& opened,
                             std::span<const std::int64_t> selected);

}  // namespace coldframe::extract

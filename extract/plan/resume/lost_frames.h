// Exams of a cache of which frames could not be read.
#pragma once

#include <string_view>
#include <unordered_set>

#include "cache/read/reader.h"

namespace coldframe::extract {

std::size_t frames_held(const cache::ExamInfo& exam);  // those that are present

// The ids of those whose revision that holds lacks frames that could not be read. `cached` may be
// null, and must outlive what is returned.
std::unordered_set<std::string_view> with_lost_frames(const cache::CacheReader* cached);

}  // namespace coldframe::extract

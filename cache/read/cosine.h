// The cosine tells how alike two feature vectors are.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace coldframe::cache {

// The cosine between two rows; NaN if one is missing (NaN) or zero.
double cosine(std::span<const float> a, std::span<const float> b);

// [T] Euclidean norms of the rows of `features`, [T, dimension]; NaN for missing frames.
std::vector<double> row_norms(std::span<const float> features, std::size_t dimension);

}  // namespace coldframe::cache

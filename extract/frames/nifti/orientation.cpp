#include "extract/frames/nifti/orientation.h"

#include <nifti2_io.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "common/cli/error.h"

namespace coldframe::frames {
namespace {

// The columns scaled to unit length.
nifti_dmat33 without_zooms(const Matrix3& transform) {
  nifti_dmat33 scaled{};
  for (std::size_t column = 0; column < 3; ++column) {
    const double zoom =
        std::hypot(transform[0][column], transform[1][column], transform[2][column]);
    for (std::size_t row = 0; row < 3; ++row) scaled.m[row][column] = transform[row][column] / zoom;
  }
  return scaled;
}

// A NaN compares false, too.
bool is_singular(const nifti_dmat33& scaled) {
  constexpr double kSingular = 1e-9;
  return !(std::abs(nifti_dmat33_determ(scaled)) > kSingular);
}

// The orthogonal factor of the polar decomposition.
nifti_dmat33 without_zooms_and_shears(const Matrix3& transform) {
  const nifti_dmat33 scaled = without_zooms(transform);
  if (is_singular(scaled))
    throw DataError("its orientation (sform, qform or pixdim) is singular; correct the header");
  return nifti_dmat33_polar(scaled);
}

}  // namespace

bool is_singular(const Matrix3& transform) {
  return is_singular(without_zooms(transform));
}

Orientation closest_ras(const Matrix3& transform) {
  nifti_dmat33 rotation = without_zooms_and_shears(transform);
  std::array<double, 3> strongest{};
  for (std::size_t column = 0; column < 3; ++column) {
    for (const auto& row : rotation.m) {
      strongest[column] = std::max(strongest[column], row[column] * row[column]);
    }
  }
  std::array<std::size_t, 3> columns{0, 1, 2};
  std::stable_sort(columns.begin(), columns.end(),
                   [&](std::size_t a, std::size_t b) { return strongest[a] > strongest[b]; });
  Orientation orientation;
  std::array<bool, 3> taken{};
  for (const std::size_t column : columns) {
    std::size_t best = 3;
    for (std::size_t row = 0; row < 3; ++row) {
      if (taken[row]) continue;
      if (best == 3 || std::abs(rotation.m[row][column]) > std::abs(rotation.m[best][column])) {
        best = row;
      }
    }
    taken[best] = true;
    orientation[best] = {static_cast<int>(column), rotation.m[best][column] < 0};
  }
  return orientation;
}

}  // namespace coldframe::frames

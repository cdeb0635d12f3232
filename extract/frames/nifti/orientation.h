// Finds which way a volume lies in the scanner.
#pragma once

#include <array>

namespace coldframe::frames {

// The file's axis (0 = i, fastest; 1 = j; 2 = k) that runs along a patient axis.
struct FileAxis {
  int axis = 0;
  bool flipped = false;  // it runs towards left, posterior or inferior

  bool operator==(const FileAxis&) const = default;
};

// One entry per patient axis: x (left to right), y (posterior to anterior), z (inferior to
// superior).
using Orientation = std::array<FileAxis, 3>;

// The upper left 3×3 of a voxel-to-scanner transform, [row][column].
using Matrix3 = std::array<std::array<double, 3>, 3>;

bool is_singular(const Matrix3& transform);  // it maps the volume to a plane, or to no numbers

// The axes of the closest "RAS+" array, chosen as nibabel's io_orientation does: the strongest
// components of the nearest orthogonal matrix first. DataError for a singular transform.
Orientation closest_ras(const Matrix3& transform);

}  // namespace coldframe::frames

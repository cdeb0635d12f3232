// Volumes: the values of a NIfTI file or of the slices of a DICOM series, and where they lie in the
// patient.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "extract/decode/frame.h"

namespace coldframe::frames {

// Millimetres towards right, anterior and superior (RAS+), as NIfTI has them; DICOM's coordinates
// (LPS+) have the other sign in the first two.
using Point = std::array<double, 3>;

inline double dot(const Point& a, const Point& b) {
  return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}
inline double length(const Point& a) {
  return std::sqrt(dot(a, a));
}

// The file's axis (0 = i, fastest; 1 = j; 2 = k) along a patient axis.
struct FileAxis {
  int axis = 0;
  bool flipped = false;  // it runs towards left, posterior or inferior

  bool operator==(const FileAxis&) const = default;
};

// One entry per patient axis: x (left to right), y (posterior to anterior), z (inferior to
// superior).
using Orientation = std::array<FileAxis, 3>;

// A plane of values, row by row.
struct Plane {
  std::int64_t width = 0, height = 0;
  Point origin{}, across{},
      down{};  // of the first value; to the next one of a row; to the next row
  // To the next plane, if the file itself states it.
  Point through{kNotStated, kNotStated, kNotStated};
};

// Voxel (i, j, k), i the fastest in memory, lies at origin + i·axes[0] + j·axes[1] + k·axes[2].
struct VolumeGeometry {
  std::array<std::int64_t, 3> size{};
  Point origin{};
  std::array<Point, 3> axes{};
  std::vector<std::size_t> places{};  // k of each plane, in the order in which planes are read

  Point at(const Point& voxel) const;
  std::int64_t voxels() const { return size[0] * size[1] * size[2]; }
  bool is_sheared() const;          // some axes are not at right angles (a tilted gantry)
  Orientation orientation() const;  // as nibabel's io_orientation. DataError: axes are parallel
};

// Orders planes along their normal. `names` are their files', for messages. DataError: they differ
// in size or direction, two lie at one place, one is missing between others, their distances differ
// by more than a tenth, or places are not stated.
VolumeGeometry stack(std::span<const Plane> planes, std::span<const std::string> names);

// Holds values as 16-bit integers until one is none, and as float32 from then on.
class Volume {
 public:
  explicit Volume(VolumeGeometry geometry);

  const VolumeGeometry& geometry() const { return geometry_; }
  // Planes come in the order in which they are read, 0, 1, …; values as Plane has them.
  void set_plane(std::size_t plane, std::span<const double> values);

  // Calls `use` with a pointer to the values, of int16 or float.
  template <typename Use>
  decltype(auto) with_values(const Use& use) const {
    return reals_ ? use(static_cast<const float*>(reals_.get()))
                  : use(static_cast<const std::int16_t*>(integers_.get()));
  }

 private:
  void turn_to_reals(std::size_t planes);  // that have come

  VolumeGeometry geometry_;
  std::unique_ptr<std::int16_t[]> integers_;
  std::unique_ptr<float[]> reals_;
};

}  // namespace coldframe::frames

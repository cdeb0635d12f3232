// The header of a NIfTI file, and the orientation of its volume.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>

#include "common/numbers/dtype.h"
#include "extract/decode/volume.h"
#include "extract/decode/window.h"

namespace coldframe::frames {

// Determines a volume's orientation in the scanner.

// The upper left 3×3 of a voxel-to-scanner transform, [row][column].
using Matrix3 = std::array<std::array<double, 3>, 3>;

bool is_singular(const Matrix3& transform);  // it maps the volume to a plane, or to no numbers

// The axes of the closest "RAS+" array, chosen as nibabel's io_orientation does: the strongest
// components of the nearest orthogonal matrix first. DataError for a singular transform.
Orientation closest_ras(const Matrix3& transform);

// The header of a NIfTI-1 or NIfTI-2 file. Sources: nifti1.h and nifti2.h of the NIfTI Data Format
// Working Group, which libnifti ships; nibabel's reading of what they leave open.

inline constexpr std::size_t kNiftiHeaderBytes = 540;  // of NIfTI-2; NIfTI-1 has 348

struct VoxelType {
  DType number = DType::kUint8;
  int values = 1;  // a voxel: 3 of RGB24, 4 of RGBA32

  std::size_t value_bytes() const { return bytes_of(number); }
  std::size_t voxel_bytes() const { return value_bytes() * static_cast<std::size_t>(values); }
  bool is_colour() const { return values > 1; }
};

struct NiftiHeader {
  VoxelType type;
  bool swapped = false;  // the voxels' bytes are in the order that is not this machine's
  bool is_pair = false;  // the voxels are in the .img file next to it
  std::array<std::int64_t, 3> size{1, 1, 1};  // of the file's axes, the fastest first
  std::int64_t times = 1;                     // dim[4]
  std::int64_t components = 1;                // dim[5], or dim[4] of vectors: 3 or 4, a colour
  std::uint64_t offset = 0;                   // of the first voxel in its file
  Rescale rescale;
  double cal_min = 0, cal_max = 0;  // the window that the file states, where cal_min < cal_max
  // Of sform, unless it is singular and there is a qform; else of qform, else of pixdim with x
  // flipped (as nibabel).
  Orientation orientation;
  Point origin{};                      // of the first voxel, by the same
  std::array<Point, 3> axes{};         // millimetres from voxel to voxel; NaN if unknown
  bool is_sform_singular = false;      // and a qform holds in its place
  std::array<double, 3> spacing_mm{};  // of the file's axes, NaN if unknown
  double interval_s = 0;               // between time points, NaN if unknown

  // True if bytes are already levels: a voxel's colour.
  bool holds_levels() const {
    return type.is_colour() || (components > 1 && type.number == DType::kUint8 &&
                                rescale.slope == 1 && rescale.intercept == 0);
  }
  // Three or four bytes per voxel, ambiguous between times and a colour.
  bool may_be_colour() const {
    return components == 1 && (times == 3 || times == 4) && type.number == DType::kUint8 &&
           std::isnan(interval_s);
  }
  std::int64_t volume_voxels() const { return size[0] * size[1] * size[2]; }
  std::uint64_t data_end() const {
    return offset +
           static_cast<std::uint64_t>(volume_voxels() * times * components) * type.voxel_bytes();
  }
};

// Detects size and magic, in either byte order.
bool is_nifti_header(std::string_view head);

// `head` is the file's first kNiftiHeaderBytes or all it has. DataError, without the file's name:
// dimensions that are damaged, too many or too large, a type that is not read, an intercept that is
// no number, a singular orientation, CIFTI (brain models, not volumes).
NiftiHeader parse_nifti_header(std::string_view head);

}  // namespace coldframe::frames

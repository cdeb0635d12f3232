// The types that a NIfTI voxel may have.
#pragma once

#include <cstddef>

#include "common/numbers/dtype.h"

namespace coldframe::frames {

struct VoxelType {
  DType number = DType::kUint8;
  int values = 1;  // a voxel: 3 of RGB24, 4 of RGBA32

  std::size_t value_bytes() const { return bytes_of(number); }
  std::size_t voxel_bytes() const { return value_bytes() * static_cast<std::size_t>(values); }
  bool is_colour() const { return values > 1; }
};

// nifti1.h's DT_ and NIFTI_TYPE_ codes. DataError names a type that is not read: complex numbers,
// single bits, and float128, whose bytes differ between the machines that write it.
VoxelType voxel_type(int datatype);

}  // namespace coldframe::frames

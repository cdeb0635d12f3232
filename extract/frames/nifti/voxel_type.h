// The types that a NIfTI voxel may have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "extract/frames/percentiles.h"

namespace coldframe::frames {

enum class VoxelCode {
  kUint8,
  kInt8,
  kInt16,
  kUint16,
  kInt32,
  kUint32,
  kInt64,
  kUint64,
  kFloat32,
  kFloat64
};

struct VoxelType {
  VoxelCode code = VoxelCode::kUint8;
  std::size_t value_bytes = 1;  // of one value
  int values = 1;               // a voxel: 3 of RGB24, 4 of RGBA32
  ValueKind kind = ValueKind::kInteger16;

  std::size_t voxel_bytes() const { return value_bytes * static_cast<std::size_t>(values); }
  bool is_colour() const { return values > 1; }
};

// nifti1.h's DT_ and NIFTI_TYPE_ codes. DataError names a type that is not read: complex numbers,
// single bits, and float128, whose bytes differ between the machines that write it.
VoxelType voxel_type(int datatype);

// Numbers in the machine's byte order.
void to_doubles(std::span<const std::byte> bytes, VoxelCode code, std::span<double> values);

}  // namespace coldframe::frames

#include "extract/frames/nifti/voxel_type.h"

#include <nifti2_io.h>

#include <cstring>

#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe::frames {
namespace {

template <typename Value>
void convert(std::span<const std::byte> bytes, std::span<double> values) {
  const std::byte* from = bytes.data();
  for (double& value : values) {
    Value raw;
    std::memcpy(&raw, from, sizeof raw);
    value = static_cast<double>(raw);
    from += sizeof raw;
  }
}

}  // namespace

VoxelType voxel_type(int datatype) {
  switch (datatype) {
    case NIFTI_TYPE_UINT8:
      return {VoxelCode::kUint8, 1, 1, ValueKind::kInteger16};
    case NIFTI_TYPE_INT8:
      return {VoxelCode::kInt8, 1, 1, ValueKind::kInteger16};
    case NIFTI_TYPE_INT16:
      return {VoxelCode::kInt16, 2, 1, ValueKind::kInteger16};
    case NIFTI_TYPE_UINT16:
      return {VoxelCode::kUint16, 2, 1, ValueKind::kInteger16};
    case NIFTI_TYPE_INT32:
      return {VoxelCode::kInt32, 4, 1, ValueKind::kInteger32};
    case NIFTI_TYPE_UINT32:
      return {VoxelCode::kUint32, 4, 1, ValueKind::kInteger32};
    case NIFTI_TYPE_INT64:
      return {VoxelCode::kInt64, 8, 1, ValueKind::kFloat64};
    case NIFTI_TYPE_UINT64:
      return {VoxelCode::kUint64, 8, 1, ValueKind::kFloat64};
    case NIFTI_TYPE_FLOAT32:
      return {VoxelCode::kFloat32, 4, 1, ValueKind::kFloat32};
    case NIFTI_TYPE_FLOAT64:
      return {VoxelCode::kFloat64, 8, 1, ValueKind::kFloat64};
    case NIFTI_TYPE_RGB24:
      return {VoxelCode::kUint8, 1, 3, ValueKind::kInteger16};
    case NIFTI_TYPE_RGBA32:
      return {VoxelCode::kUint8, 1, 4, ValueKind::kInteger16};
    default:
      break;
  }
  throw DataError(concat("its voxels are of type ", nifti_datatype_to_string(datatype), " (",
                         datatype, "), which is not read; convert them to integers, float32, ",
                         "float64 or RGB24"));
}

void to_doubles(std::span<const std::byte> bytes, VoxelCode code, std::span<double> values) {
  switch (code) {
    case VoxelCode::kUint8:
      return convert<std::uint8_t>(bytes, values);
    case VoxelCode::kInt8:
      return convert<std::int8_t>(bytes, values);
    case VoxelCode::kInt16:
      return convert<std::int16_t>(bytes, values);
    case VoxelCode::kUint16:
      return convert<std::uint16_t>(bytes, values);
    case VoxelCode::kInt32:
      return convert<std::int32_t>(bytes, values);
    case VoxelCode::kUint32:
      return convert<std::uint32_t>(bytes, values);
    case VoxelCode::kInt64:
      return convert<std::int64_t>(bytes, values);
    case VoxelCode::kUint64:
      return convert<std::uint64_t>(bytes, values);
    case VoxelCode::kFloat32:
      return convert<float>(bytes, values);
    case VoxelCode::kFloat64:
      return convert<double>(bytes, values);
  }
}

}  // namespace coldframe::frames

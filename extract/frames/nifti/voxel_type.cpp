#include "extract/frames/nifti/voxel_type.h"

#include <nifti2_io.h>

#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe::frames {

VoxelType voxel_type(int datatype) {
  switch (datatype) {
    case NIFTI_TYPE_UINT8:
      return {DType::kUint8, 1};
    case NIFTI_TYPE_INT8:
      return {DType::kInt8, 1};
    case NIFTI_TYPE_INT16:
      return {DType::kInt16, 1};
    case NIFTI_TYPE_UINT16:
      return {DType::kUint16, 1};
    case NIFTI_TYPE_INT32:
      return {DType::kInt32, 1};
    case NIFTI_TYPE_UINT32:
      return {DType::kUint32, 1};
    case NIFTI_TYPE_INT64:
      return {DType::kInt64, 1};
    case NIFTI_TYPE_UINT64:
      return {DType::kUint64, 1};
    case NIFTI_TYPE_FLOAT32:
      return {DType::kFp32, 1};
    case NIFTI_TYPE_FLOAT64:
      return {DType::kFp64, 1};
    case NIFTI_TYPE_RGB24:
      return {DType::kUint8, 3};
    case NIFTI_TYPE_RGBA32:
      return {DType::kUint8, 4};
    default:
      break;
  }
  throw DataError(concat("its voxels are of type ", nifti_datatype_to_string(datatype), " (",
                         datatype, "), which is not read; convert them to integers, float32, ",
                         "float64 or RGB24"));
}

}  // namespace coldframe::frames

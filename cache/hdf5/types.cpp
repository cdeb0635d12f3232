#include "cache/hdf5/types.h"

#include <bit>

namespace coldframe::cache::hdf5 {
namespace {

static_assert(std::endian::native == std::endian::little,
              "rows are handed to HDF5 as they lie in memory");

// IEEE binary16, which HDF5 1.10 has no name for: sign 15, exponent 10…14, mantissa 0…9, bias 15.
H5::DataType make_half() {
  H5::FloatType half(H5::PredType::IEEE_F32LE);
  half.setFields(15, 10, 5, 0, 10);
  half.setSize(2);
  half.setEbias(15);
  return half;
}

H5::DataType make_text(std::size_t bytes) {
  H5::StrType text(H5::PredType::C_S1, bytes);
  text.setStrpad(H5T_STR_NULLPAD);
  text.setCset(H5T_CSET_UTF8);
  return text;
}

}  // namespace

H5::DataType make_type(Type type, std::size_t text_bytes) {
  if (!type) return make_text(text_bytes);
  switch (*type) {
    case DType::kUint8:
      return H5::PredType::STD_U8LE;
    case DType::kInt32:
      return H5::PredType::STD_I32LE;
    case DType::kInt64:
      return H5::PredType::STD_I64LE;
    case DType::kUint32:
      return H5::PredType::STD_U32LE;
    case DType::kUint64:
      return H5::PredType::STD_U64LE;
    case DType::kFp16:
      return make_half();
    case DType::kFp32:
      return H5::PredType::IEEE_F32LE;
    case DType::kFp64:
      return H5::PredType::IEEE_F64LE;
    default:  // the format has no others
      return {};
  }
}

}  // namespace coldframe::cache::hdf5

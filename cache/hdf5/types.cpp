#include "cache/hdf5/types.h"

#include <bit>

namespace coldframe::cache::hdf5 {
namespace {

static_assert(std::endian::native == std::endian::little,
              "rows are handed to HDF5 as they lie in memory");

Handle copy_type(hid_t type) {
  return {check_id(H5Tcopy(type), "copy a type"), H5Tclose};
}

// IEEE binary16, which HDF5 1.10 has no name for: sign 15, exponent 10…14, mantissa 0…9, bias 15.
Handle make_half() {
  Handle half = copy_type(H5T_IEEE_F32LE);
  check(H5Tset_fields(half, 15, 10, 5, 0, 10), "describe float16");
  check(H5Tset_size(half, 2), "describe float16");
  check(H5Tset_ebias(half, 15), "describe float16");
  return half;
}

Handle make_text(std::size_t bytes) {
  Handle text = copy_type(H5T_C_S1);
  check(H5Tset_size(text, bytes), "size a text");
  check(H5Tset_strpad(text, H5T_STR_NULLPAD), "pad a text");
  check(H5Tset_cset(text, H5T_CSET_UTF8), "choose UTF-8");
  return text;
}

}  // namespace

std::size_t element_bytes(Type type, std::size_t text_bytes) {
  switch (type) {
    case Type::kUint8:
      return 1;
    case Type::kFloat16:
      return 2;
    case Type::kInt32:
    case Type::kUint32:
    case Type::kFloat32:
      return 4;
    case Type::kInt64:
    case Type::kUint64:
    case Type::kFloat64:
      return 8;
    case Type::kText:
      return text_bytes;
  }
  return 0;
}

const char* type_name(Type type) {
  switch (type) {
    case Type::kUint8:
      return "uint8";
    case Type::kInt32:
      return "int32";
    case Type::kInt64:
      return "int64";
    case Type::kUint32:
      return "uint32";
    case Type::kUint64:
      return "uint64";
    case Type::kFloat16:
      return "float16";
    case Type::kFloat32:
      return "float32";
    case Type::kFloat64:
      return "float64";
    case Type::kText:
      return "text";
  }
  return "?";
}

Handle make_type(Type type, std::size_t text_bytes) {
  switch (type) {
    case Type::kUint8:
      return copy_type(H5T_STD_U8LE);
    case Type::kInt32:
      return copy_type(H5T_STD_I32LE);
    case Type::kInt64:
      return copy_type(H5T_STD_I64LE);
    case Type::kUint32:
      return copy_type(H5T_STD_U32LE);
    case Type::kUint64:
      return copy_type(H5T_STD_U64LE);
    case Type::kFloat16:
      return make_half();
    case Type::kFloat32:
      return copy_type(H5T_IEEE_F32LE);
    case Type::kFloat64:
      return copy_type(H5T_IEEE_F64LE);
    case Type::kText:
      return make_text(text_bytes);
  }
  return {};
}

}  // namespace coldframe::cache::hdf5

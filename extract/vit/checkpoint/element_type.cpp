#include "extract/vit/checkpoint/element_type.h"

#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe::vit {

namespace {

constexpr ElementType kElementTypes[] = {
    {"FloatStorage", "float32", 4, torch::kFloat32},
    {"DoubleStorage", "float64", 8, torch::kFloat64},
    {"HalfStorage", "float16", 2, torch::kFloat16},
    {"BFloat16Storage", "bfloat16", 2, torch::kBFloat16},
    {"LongStorage", "int64", 8, torch::kInt64},
    {"IntStorage", "int32", 4, torch::kInt32},
    {"ShortStorage", "int16", 2, torch::kInt16},
    {"CharStorage", "int8", 1, torch::kInt8},
    {"ByteStorage", "uint8", 1, torch::kUInt8},
    {"BoolStorage", "bool", 1, torch::kBool},
    {"UntypedStorage", "uint8", 1, torch::kUInt8},
    {"", "uint16", 2, torch::kUInt16},
    {"", "uint32", 4, torch::kUInt32},
    {"", "uint64", 8, torch::kUInt64},
    {"ComplexFloatStorage", "complex64", 8},
    {"ComplexDoubleStorage", "complex128", 16},
    {"QInt8Storage", "qint8", 1},
    {"QUInt8Storage", "quint8", 1},
    {"QInt32Storage", "qint32", 4},
};

}  // namespace

const ElementType& element_type_of_storage(std::string_view storage) {
  for (const ElementType& type : kElementTypes)
    if (!type.storage.empty() && type.storage == storage) return type;
  throw DataError(concat("a storage of type ", storage, " is not supported; convert it to float"));
}

const ElementType& element_type_of_dtype(std::string_view dtype) {
  for (const ElementType& type : kElementTypes)
    if (type.dtype == dtype) return type;
  throw DataError(concat("a tensor of type ", dtype, " is not supported; convert it to float"));
}

}  // namespace coldframe::vit

// Describes a dataset of ours: one or two dimensions of one of a few types.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace coldframe::cache::hdf5 {

enum class Type { kUint8, kInt32, kInt64, kUint32, kUint64, kFloat16, kFloat32, kFloat64, kText };

// Bytes of one element; `text_bytes` for text.
std::size_t element_bytes(Type type, std::size_t text_bytes);
const char* type_name(Type type);

struct DatasetSpec {
  Type type = Type::kUint8;
  std::size_t text_bytes = 0;  // of a fixed-length UTF-8 string, padded with NULs
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;  // 0: one-dimensional

  std::uint64_t row_bytes() const {
    return element_bytes(type, text_bytes) * (columns == 0 ? 1 : columns);
  }
};

}  // namespace coldframe::cache::hdf5

// Describes a dataset of ours: rows of one shape and one of a few types.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/numbers/dtype.h"

namespace coldframe::cache::hdf5 {

// Of an element; none: a text of fixed length.
using Type = std::optional<DType>;
inline constexpr Type kText = std::nullopt;

// Bytes of one element; `text_bytes` for text.
std::size_t element_bytes(Type type, std::size_t text_bytes);
const char* type_name(Type type);

struct DatasetSpec {
  Type type = DType::kUint8;
  std::size_t text_bytes = 0;  // of a fixed-length UTF-8 string, padded with NULs
  std::uint64_t rows = 0;
  std::vector<std::uint64_t> row_shape = {};  // {}: a row is one element

  std::uint64_t row_bytes() const;
};

}  // namespace coldframe::cache::hdf5

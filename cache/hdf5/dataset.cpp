#include "cache/hdf5/dataset.h"

#include <functional>
#include <numeric>

namespace coldframe::cache::hdf5 {

std::size_t element_bytes(Type type, std::size_t text_bytes) {
  return type ? bytes_of(*type) : text_bytes;
}

const char* type_name(Type type) {
  return type ? dtype_name(*type) : "text";
}

std::uint64_t DatasetSpec::row_bytes() const {
  return std::accumulate(row_shape.begin(), row_shape.end(),
                         std::uint64_t{element_bytes(type, text_bytes)}, std::multiplies<>());
}

}  // namespace coldframe::cache::hdf5

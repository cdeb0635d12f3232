#include "cache/hdf5/dataset.h"

#include <functional>
#include <numeric>

namespace coldframe::cache::hdf5 {
namespace {

struct TypeFacts {
  const char* name;
  std::size_t bytes;
};

const TypeFacts& facts(Type type) {
  // These stand in the order of Type.
  static constexpr TypeFacts kFacts[] = {{"uint8", 1},   {"int32", 4},   {"int64", 8},
                                         {"uint32", 4},  {"uint64", 8},  {"float16", 2},
                                         {"float32", 4}, {"float64", 8}, {"text", 0}};
  return kFacts[static_cast<std::size_t>(type)];
}

}  // namespace

std::size_t element_bytes(Type type, std::size_t text_bytes) {
  return type == Type::kText ? text_bytes : facts(type).bytes;
}

const char* type_name(Type type) {
  return facts(type).name;
}

std::uint64_t DatasetSpec::row_bytes() const {
  return std::accumulate(row_shape.begin(), row_shape.end(),
                         std::uint64_t{element_bytes(type, text_bytes)}, std::multiplies<>());
}

}  // namespace coldframe::cache::hdf5

#include "cache/hdf5/dataset.h"

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

}  // namespace coldframe::cache::hdf5

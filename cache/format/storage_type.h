// As what the feature values of a cache are stored.
#pragma once

#include <cstddef>

namespace coldframe::cache {

enum class StorageType { kFloat16, kFloat32 };

inline const char* storage_name(StorageType storage) {
  return storage == StorageType::kFloat16 ? "float16" : "float32";
}

inline std::size_t value_bytes(StorageType storage) {
  return storage == StorageType::kFloat16 ? 2 : 4;
}

}  // namespace coldframe::cache

// The number types in which a cache stores feature values.
#pragma once

#include <cstddef>

#include "common/text/word_table.h"

namespace coldframe::cache {

enum class StorageType { kFloat16, kFloat32 };

inline const WordTable<StorageType> kStorageTypes{{"float16", StorageType::kFloat16},
                                                  {"float32", StorageType::kFloat32}};

inline const char* storage_name(StorageType storage) {
  return word_for(kStorageTypes, storage);
}

inline std::size_t value_bytes(StorageType storage) {
  return storage == StorageType::kFloat16 ? 2 : 4;
}

}  // namespace coldframe::cache

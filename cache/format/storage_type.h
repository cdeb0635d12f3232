// The types of numbers in which a cache may store features.
#pragma once

#include "common/numbers/dtype.h"
#include "common/text/word_table.h"

namespace coldframe::cache {

inline const WordTable<DType> kStorageTypes{{"float16", DType::kFp16}, {"float32", DType::kFp32}};

}  // namespace coldframe::cache

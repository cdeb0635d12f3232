// Reads the features of many exams one after another, many at a time. Internal to cache/.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "cache/read/shard_set.h"

namespace coldframe::cache {

// Calls `body` on this thread with the stored rows of one array of each of `exams` in turn, while
// another thread reads ahead by a few megabytes, or exams where they are larger. Checksums are
// compared.
void scan_rows(const ShardSet& cache, std::size_t array, std::span<const std::size_t> exams,
               const std::function<void(std::size_t exam, std::span<const std::byte> rows)>& body);

}  // namespace coldframe::cache

// Estimates the size of the cache that a dry run looks ahead to.
#pragma once

#include <cstddef>
#include <cstdint>

#include "extract/inspect/dry_run/report.h"

namespace coldframe::extract::dry_run {

// Bytes of a single-file cache of the exams that can be extracted, at `width` features per frame.
std::uint64_t estimate_cache_bytes(const Report& report, std::size_t width);

}  // namespace coldframe::extract::dry_run

// Estimates the size of the cache that a dry run looks ahead to.
#pragma once

#include <cstddef>
#include <cstdint>

#include "extract/inspect/dry_run/report.h"

namespace coldframe::extract::dry_run {

// Bytes that a cut stores of one view of a frame: of the pixels, or of the tokens of a ViT-S/16;
// 0 without one.
std::uint64_t estimate_cut_bytes(const Report& report, std::size_t width);

// Bytes of a single-file cache of the exams that can be extracted, at `width` features per frame.
std::uint64_t estimate_cache_bytes(const Report& report, std::size_t width);

}  // namespace coldframe::extract::dry_run

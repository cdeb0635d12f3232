// The two inner loops of the resampler, for any processor and for AVX2. All give the same bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "extract/preprocess/resample/resample.h"

namespace coldframe::preprocess {

// Loops may read this many bytes beyond the end of an input row and write as many beyond an output
// row of the horizontal pass.
inline constexpr std::size_t kSlackBytes = 32;

struct Passes {
  // Resamples four rows at once: in [4][width × 3] → out [4][x.size × 3]. Rows may coincide.
  void (*horizontal)(const Kernel& x, const std::array<const std::uint8_t*, 4>& in,
                     const std::array<std::uint8_t*, 4>& out);
  // Output row `row` of `bytes` bytes from rows that lie `stride` bytes apart; `in` is row 0.
  void (*vertical)(const Kernel& y, std::size_t row, const std::uint8_t* in, std::size_t stride,
                   std::size_t bytes, std::uint8_t* out);
};

const Passes& portable_passes();
const Passes* avx2_passes();  // null where the processor has no AVX2
const Passes& fastest_passes();

}  // namespace coldframe::preprocess

// Percentiles of more values than memory holds, exactly as numpy.percentile gives them.
#pragma once

#include <functional>
#include <optional>
#include <span>

#include "common/numbers/dtype.h"
#include "extract/frames/window.h"

namespace coldframe::frames {

// value · slope + intercept
struct Rescale {
  double slope = 1, intercept = 0;
  double operator()(double value) const { return value * slope + intercept; }
};

// Hands over all values once, in blocks of any size and in any order; the same ones at every call.
using ValueBlock = std::function<void(std::span<const double>)>;
using ValuePass = std::function<void(const ValueBlock&)>;

// The percentiles window.low and window.high of all finite values after rescaling, interpolated
// linearly between neighbouring ranks (numpy's default). Each pass counts 16 bits of an
// order-preserving key within the bins that hold a wanted rank (a radix selection), so that memory
// is 2 MiB whatever the number of values: one pass for integers of up to 16 bits, two for those of
// 32 bits and float32, four for all others. `type`: of the values before rescaling. Empty when no
// value is finite.
std::optional<ValueRange> percentile_range(const ValuePass& pass, DType type,
                                           const Rescale& rescale, const Window& window);

}  // namespace coldframe::frames

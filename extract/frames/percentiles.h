// Percentiles of more values than memory holds, exactly as numpy.percentile gives them.
#pragma once

#include <functional>
#include <optional>
#include <span>

#include "extract/frames/window.h"

namespace coldframe::frames {

// value · slope + intercept
struct Rescale {
  double slope = 1, intercept = 0;
  double operator()(double value) const { return value * slope + intercept; }
};

// The kind of the values before rescaling: it decides how many passes finding a rank takes.
enum class ValueKind { kInteger16, kInteger32, kFloat32, kFloat64 };  // 1, 2, 2 and 4 passes
// kInteger16 and kInteger32 hold signed and unsigned integers alike, kFloat64 anything.

// Hands over all values once, in blocks of any size and in any order; the same ones at every call.
using ValueBlock = std::function<void(std::span<const double>)>;
using ValuePass = std::function<void(const ValueBlock&)>;

// The percentiles window.low and window.high of all finite values after rescaling, interpolated
// linearly between neighbouring ranks (numpy's default). Each pass counts 16 bits of an
// order-preserving key within the bins that hold a wanted rank (a radix selection), so that memory
// is 2 MiB whatever the number of values. Empty when no value is finite.
std::optional<ValueRange> percentile_range(const ValuePass& pass, ValueKind kind,
                                           const Rescale& rescale, const Window& window);

}  // namespace coldframe::frames

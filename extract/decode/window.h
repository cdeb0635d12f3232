// Maps values of any depth (16-bit images, DICOM, NIfTI) to the 8 bits of a frame.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>

#include "common/numbers/dtype.h"

namespace coldframe::frames {

// --window: which values become black and white.
struct Window {
  enum class Kind {
    kFile,        // as stated in the file; otherwise the reader's own rule
    kFixed,       // center ± width / 2
    kPercentiles  // of all values of the exam's files
  };
  Kind kind = Kind::kFile;
  double center = 0, width = 0;   // kFixed, in the file's rescaled units (e.g. Hounsfield)
  double low = 0.5, high = 99.5;  // kPercentiles, in percent

  bool operator==(const Window&) const = default;
};

// "file", "C,W" (W > 0) or "L%,H%" (0 <= L < H <= 100). ConfigError for anything else.
Window parse_window(std::string_view text);
std::string_view window_help();

// Values <= `low` become 0, values >= `high` 255, linear in between.
struct ValueRange {
  double low = 0, high = 255;
};

// Rounds half up, as viewers do: floor(255 · (value − low) / (high − low) + 0.5). NaN becomes 0; an
// empty range (low >= high) is a step at `low`.
std::uint8_t to_level(double value, const ValueRange& range);

// The fraction of a frame's values that are finite.
class FiniteFraction {
 public:
  void add(double value) { add(std::isfinite(value)); }
  void add(bool is_finite) {
    ++values_;
    finite_ += is_finite;
  }
  double share() const {
    return values_ == 0 ? 1 : static_cast<double>(finite_) / static_cast<double>(values_);
  }

 private:
  std::uint64_t values_ = 0, finite_ = 0;
};

// A histogram of values, which determines the window of images that state none. One survey covers
// all files of an exam, so that all its frames have one scale.
class ValueSurvey {
 public:
  void add(double value, std::uint64_t count = 1);  // ignores NaN and infinities
  void add(const ValueSurvey& other);
  bool empty() const { return total_ == 0; }

  // kPercentiles: as numpy.percentile with linear interpolation; exact for integers up to 2^18,
  // else to a relative error of 2^-17. kFixed: center ± width / 2. kFile: min to max. {0, 0} when
  // empty.
  ValueRange range(const Window& window) const;

 private:
  void coarsen();

  // Keys are the leading bits of the values, to bound the number of bins.
  std::unordered_map<std::uint32_t, std::uint64_t> counts_;
  int dropped_bits_ = 35;  // of a double's 64; more when there are too many bins
  std::uint64_t total_ = 0;
  double least_ = std::numeric_limits<double>::infinity(), greatest_ = -least_;
};

// Percentiles of more values than memory holds, exactly as numpy.percentile gives them.

// value · slope + intercept
struct Rescale {
  double slope = 1, intercept = 0;
  double operator()(double value) const { return value * slope + intercept; }
};

// Delivers all values once, in blocks of any size and in any order; every call delivers the same
// values.
using ValueBlock = std::function<void(std::span<const double>)>;
using ValuePass = std::function<void(const ValueBlock&)>;

// The percentiles window.low and window.high of all finite values after rescaling, interpolated
// linearly between adjacent ranks (numpy's default). Each pass counts 16 bits of an
// order-preserving key within the bins that hold a wanted rank (a radix selection), so that memory
// is 2 MiB for any number of values: one pass for integers of up to 16 bits, two for those of 32
// bits and float32, four for all others. `type`: of the values before rescaling. Empty when no
// value is finite.
std::optional<ValueRange> percentile_range(const ValuePass& pass, DType type,
                                           const Rescale& rescale, const Window& window);

}  // namespace coldframe::frames

// Values in 8 bits: groups of neighbours, each from its least to its greatest value in 255 equal
// steps, as in ActNN (Chen et al. 2021, arXiv:2104.14129), but rounded to the nearest, not at
// random. A value is off by at most half a step.
#pragma once

#include <cstdint>
#include <vector>

#include "common/torch/tensor.h"

namespace coldframe::tune {

class EightBits {
 public:
  // x [..., width], contiguous.
  explicit EightBits(const torch::Tensor& x);
  torch::Tensor values() const;  // like x, contiguous

  // Neighbours in a row of so many values that share a step: its least divisor from 128 to 512, or
  // all of it.
  static std::int64_t group(std::int64_t width);
  // Values that operators take at a time, which bounds their temporary float32 numbers.
  static std::int64_t piece(bool cuda);

 private:
  // Calls `take(from, to)` with the groups of a piece.
  template <class Take>
  void in_pieces(const Take& take) const;

  std::vector<std::int64_t> sizes_;
  torch::ScalarType type_;
  torch::Tensor least_, step_;  // [groups, 1], float32
  torch::Tensor levels_;        // [groups, group], uint8
};

}  // namespace coldframe::tune

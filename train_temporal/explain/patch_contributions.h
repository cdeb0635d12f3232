// What each patch of a frame adds to a number that a ViT's features make: integrated gradients on
// the tokens that enter a late block. They begin where every patch is the frame's mean patch. The
// prefix tokens stay as they are: what they hold is no patch's.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "common/torch/tensor.h"
#include "extract/vit/vit.h"
#include "train_temporal/tune/chain.h"
#include "train_temporal/tune/tuned_source.h"

namespace coldframe::temporal {

// A frame's number is the sum of its features with its row of `weights` [n, F]. Points are added
// until no gap is larger than `tolerance`.
struct FrameNumber {
  torch::Tensor weights;
  double tolerance = 0;
};

struct PatchContributions {
  torch::Tensor patches;   // [n, rows, columns] float64
  double largest_gap = 0;  // of any frame: |Σ patches − what they explain|
};

class LateBlocks {
 public:
  // The source must live on.
  LateBlocks(const tune::TunedSource& source, const torch::Device& device);

  std::int64_t block() const { return block_; }  // whose input is looked at, counted from 0
  const vit::Grid& grid() const { return grid_; }

  // `rows`: n frames as the cut stores them. `done` is called after each frame of each number.
  std::vector<PatchContributions> explain(const torch::Tensor& rows,
                                          std::span<const FrameNumber> numbers,
                                          const std::function<void()>& done) const;

 private:
  struct Way;
  struct Added {
    torch::Tensor tokens;  // [N] float64, what each adds
    double gap = 0;
  };
  torch::Tensor entering(const torch::Tensor& row) const;
  torch::Tensor number(torch::Tensor tokens, const torch::Tensor& weights) const;
  torch::Tensor integrate(const Way& way, std::size_t points) const;
  Added added_on(const Way& way, double tolerance) const;

  const tune::TunedSource& source_;
  torch::Device device_;
  std::int64_t block_;
  vit::Grid grid_;
  tune::Chain early_, late_;  // from the cut; from the block
};

}  // namespace coldframe::temporal

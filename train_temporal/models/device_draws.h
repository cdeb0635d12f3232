// Dropout and noise as kernels().drop() and add_noise() draw them on a CPU, to the bit, by
// LibTorch's operations: what a device needs is drawn where it is, not copied to it.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "common/torch/tensor.h"
#include "train_temporal/data/batcher.h"
#include "train_temporal/models/dropout.h"
#include "train_temporal/models/network/tensor_list.h"

namespace coldframe::temporal {

// [R, width], 0 or `scale`. starts: [R]
torch::Tensor draw_mask(const std::vector<std::uint64_t>& starts, std::int64_t width,
                        std::uint16_t threshold, float scale, const torch::Device& device);

// [R, width], what is added. starts: [R]
torch::Tensor draw_noise(const std::vector<std::uint64_t>& starts, std::int64_t width,
                         float deviation, const torch::Device& device);

// All masks and the noise of a training step from one draw, to the bit as they are by themselves:
// so a step launches few kernels, and takes its random rows with the rest of the batch.
class StepDraws {
 public:
  // Of those draws that `dropout` makes; its factors and deviation are those of every step.
  StepDraws(const ModelConfig& config, const Dropout& dropout, const torch::Device& device);

  // [R] where the rows of each begin, masks first; `dropout` and `batch` are the step's.
  std::vector<std::int64_t> starts(const Dropout& dropout, const PackedBatch& batch) const;
  // From those, on the device: of() gives what has been drawn for N frames of B exams.
  void draw(const torch::Tensor& starts, std::int64_t frames, std::int64_t exams);
  void clear() { drawn_.clear(); }
  const torch::Tensor& of(RandomPurpose purpose) const { return drawn_.at(purpose); }

 private:
  std::vector<DrawnRow> rows_;
  Dropout::Factors factors_;
  torch::Tensor noise_table_;
  std::map<RandomPurpose, torch::Tensor> drawn_;  // [N or B, width]
};

}  // namespace coldframe::temporal

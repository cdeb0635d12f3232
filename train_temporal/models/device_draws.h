// Draws dropout and noise with LibTorch's operations on the device, instead of copying them to it;
// bit-identical to kernels().drop() and add_noise() on the CPU.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "common/torch/tensor.h"
#include "train_temporal/data/batcher.h"
#include "train_temporal/models/dropout.h"
#include "train_temporal/models/operations.h"

namespace coldframe::temporal {

// [R, width], 0 or `scale`. starts: [R]
torch::Tensor draw_mask(const std::vector<std::uint64_t>& starts, std::int64_t width,
                        std::uint16_t threshold, float scale, const torch::Device& device);

// The noise to add, [R, width]. starts: [R]
torch::Tensor draw_noise(const std::vector<std::uint64_t>& starts, std::int64_t width,
                         float deviation, const torch::Device& device);

// Draws all masks and the noise of a training step at once, bit-identical to separate draws. So a
// step launches few kernels, and its random starts are copied with the rest of the batch.
class StepDraws {
 public:
  // For the draws that `dropout` makes; its factors and deviation apply to every step.
  StepDraws(const ModelConfig& config, const Dropout& dropout, const torch::Device& device);

  // The first random word of each row, [R], masks first. `dropout` and `batch`: of the step.
  std::vector<std::int64_t> starts(const Dropout& dropout, const PackedBatch& batch) const;
  // Draws from `starts` on the device, for N frames of B exams; of() returns the results.
  void draw(const torch::Tensor& starts, std::int64_t frames, std::int64_t exams);
  void clear() { drawn_.clear(); }
  const torch::Tensor& of(RandomPurpose purpose) const { return drawn_.at(purpose); }

 private:
  std::vector<DrawnRow> rows_;
  Dropout::Factors factors_;
  torch::Tensor noise_table_;
  std::map<RandomPurpose, torch::Tensor> drawn_;  // [N or B, width]
};

// The peak number of values that a step of a model keeps, from shapes only. With D features, H
// hidden units, W = H or 2 H, I = H to H + 12 inputs, L layers, dirs directions and C outputs, b
// exams with n frames in total take
//   FusedGru, training    n (D + 2 I + 7 H + W L + 5 H L dirs + W (2 L − 1)) +
//                         b (4 H + H L dirs + 4 W + 2 C)
//   FusedGru, evaluation  n (D + I + 3 H + W L + 5 H L dirs) + b (3 H + H L dirs + W + C)
//   by autograd           n max(3 D, 2 D + a H), `a` measured; of a transformer what its attention
//                         keeps is counted by rows of [b, longest], the padded batch. S streams
//                         that are weighed keep 4 S + 3 more H, and take 2 D + (8 S + 4) H
//                         themselves

class StepValues {
 public:
  explicit StepValues(const ModelConfig& config);

  double parameters() const;
  // Of FusedGru, for n frames of b exams; training takes both.
  double forward(double n, double b) const;
  double backward(double n, double b) const;
  // Of autograd. `longest`: frames of the longest exam. `keeps`: true in training.
  double by_autograd(double n, double b, double longest, bool keeps) const;

 private:
  double activations(double n, double padded, bool keeps) const;
  double weights_beside() const;

  ModelConfig config_;
  std::vector<TensorRow> tensors_;
  double D_, H_, C_, L_, dirs_, W_, I_;
};

}  // namespace coldframe::temporal

// Dropout and input noise that depend on (seed, epoch, exam, frame, layer) only, so that a batch
// gives the same result whole or in micro-batches, on any thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/torch/tensor.h"
#include "train_temporal/data/batcher.h"

namespace coldframe::temporal {

class StepDraws;

class Dropout {
 public:
  Dropout() = default;  // evaluation: passes everything through
  // `noise`: standard deviation of the noise added to standardised inputs, except their last
  // `clean` columns.
  Dropout(double probability, std::uint64_t seed, std::uint64_t epoch, double noise = 0,
          std::int64_t clean = 0)
      : probability_(probability), noise_(noise), seed_(seed), epoch_(epoch), clean_(clean) {}

  bool active() const { return probability_ > 0; }
  // A copy with another probability.
  Dropout of(double probability) const { return {probability, seed_, epoch_, noise_, clean_}; }
  // A copy that takes the masks and noise of a step from `draws`.
  Dropout from(const StepDraws& draws) const;
  // Factors are 0 or 1 / (1 − probability). out: [R, W]; keys: [R]
  void fill(RandomPurpose layer, std::span<const std::uint64_t> keys, std::int64_t width,
            float* out) const;
  torch::Tensor mask(RandomPurpose layer, std::span<const std::uint64_t> keys, std::int64_t width,
                     const torch::Device& device = torch::kCPU) const;
  // x: [R, W]; keys: [R], the exam or frame of each row.
  torch::Tensor operator()(const torch::Tensor& x, RandomPurpose layer,
                           std::span<const std::uint64_t> keys) const;

  bool noisy() const { return noise_ > 0; }
  // Adds noise to standardised inputs x [R, W]; keys: [R]
  void add_noise(std::span<const std::uint64_t> keys, std::int64_t width, float* x) const;
  void add_noise(std::span<const std::uint64_t> keys, torch::Tensor& x) const;  // x: contiguous
  double noise() const { return noise_; }

  // The first random word of each row. keys: [R]
  std::vector<std::uint64_t> starts(RandomPurpose layer, std::span<const std::uint64_t> keys) const;
  struct Factors {
    std::uint16_t threshold;  // 16-bit draws below it give 0
    float scale;
  };
  Factors factors() const;

 private:
  double probability_ = 0, noise_ = 0;
  std::uint64_t seed_ = 0, epoch_ = 0;
  std::int64_t clean_ = 0;
  const StepDraws* drawn_ = nullptr;
};

}  // namespace coldframe::temporal

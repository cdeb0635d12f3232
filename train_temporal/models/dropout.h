// Dropout whose masks depend on (seed, epoch, exam, frame, layer) only, so that a batch gives the
// same result in one piece or in micro-batches, on any thread.
#pragma once

#include <cstdint>
#include <span>

#include "common/torch/tensor.h"
#include "train_temporal/data/sampler.h"

namespace coldframe::temporal {

class Dropout {
 public:
  Dropout() = default;  // evaluation: passes everything through
  Dropout(double probability, std::uint64_t seed, std::uint64_t epoch)
      : probability_(probability), seed_(seed), epoch_(epoch) {}

  bool active() const { return probability_ > 0; }
  // Factors are 0 or 1 / (1 − probability). out: [R, W]; keys: [R]
  void fill(Stream layer, std::span<const std::uint64_t> keys, std::int64_t width,
            float* out) const;
  torch::Tensor mask(Stream layer, std::span<const std::uint64_t> keys, std::int64_t width) const;
  // x: [R, W]; keys: [R], what each row belongs to.
  torch::Tensor operator()(const torch::Tensor& x, Stream layer,
                           std::span<const std::uint64_t> keys) const;

 private:
  double probability_ = 0;
  std::uint64_t seed_ = 0, epoch_ = 0;
};

}  // namespace coldframe::temporal

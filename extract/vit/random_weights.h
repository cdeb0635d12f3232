// Random weights for trying things out and for tests: the same numbers on every machine.
#pragma once

#include <cstdint>

#include "extract/vit/weight_source.h"

namespace coldframe::vit {

// Element i of tensor `name` is a function of (seed, name, i) alone, computed in integers and one
// multiplication: SplitMix64 of the counter gives four 16-bit numbers, whose sum is close to normal
// (Irwin–Hall, cut off at 3.5 standard deviations). Torch's generator is not used, since its
// numbers depend on version and vector width.
//
// Scaled like trained weights, not like an untrained ViT's: linear weights 1/√fan-in, tokens,
// positions and the patch bias as large as the patches' own embeddings, layer scales near one.
// The usual start (0.02, layer scale 1e-5) would leave features that hardly depend on the image.
class RandomSource : public WeightSource {
 public:
  explicit RandomSource(std::uint64_t seed) : seed_(seed) {}
  torch::Tensor take(const std::string& name, torch::IntArrayRef shape) override;

 private:
  std::uint64_t seed_;
};

inline constexpr const char* kRandomWeightsVersion = "splitmix64-irwin-hall-1";

}  // namespace coldframe::vit

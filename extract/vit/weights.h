// Random weights for experiments and tests, identical on every machine.
#pragma once

#include <cstdint>

#include "common/torch/tensor.h"
#include "extract/vit/vit.h"

namespace coldframe::vit {

// Element i of tensor `name` depends on (seed, name, i) only and is computed in integers and one
// multiplication: SplitMix64 of the counter gives four 16-bit numbers, whose sum is nearly normal
// (Irwin–Hall, truncated at 3.5 standard deviations). Torch's generator depends on version and
// vector width.
//  Scaled like trained weights, not like an untrained ViT's: linear weights 1/√fan-in, tokens,
// positions and the patch bias as large as the patches' own embeddings, layer scales near one. With
// the usual initialisation (0.02, layer scale 1e-5), features would hardly depend on the image.
class RandomSource : public WeightSource {
 public:
  explicit RandomSource(std::uint64_t seed) : seed_(seed) {}
  torch::Tensor take(const std::string& name, torch::IntArrayRef shape) override;

 private:
  std::uint64_t seed_;
};

inline constexpr const char* kRandomWeightsVersion = "splitmix64-irwin-hall-1";

// Inputs of the engines in cpu/ and gpu/, from a model with frozen weights.

// The first block starts from these tokens, the same for every image: [prefix tokens + patches,
// width] float on the CPU. Class token and registers, then for each of `patches` patches the patch
// embedding's bias (unless a norm follows it), plus position embeddings where they exist.
torch::Tensor starting_tokens(const VisionTransformerImpl& model, std::int64_t patches);

// An attention's parameters. Features that RoPE rotates as a pair are half a head apart: for models
// that rotate adjacent features, queries and keys are permuted alike, which preserves their
// products.
struct AttentionWeights {
  torch::Tensor qkv, qkv_bias;  // [3·width, width], [3·width]; no bias: undefined
  // [head width]; undefined without qk_norm, biases with RMS norms.
  torch::Tensor q_norm, q_norm_bias, k_norm, k_norm_bias;
  // [patches, head width / 2], or [heads, …] if rotations differ by head; undefined without rotary
  // positions.
  torch::Tensor sine, cosine;
  // Of the second of each pair where it turns otherwise than the first (Rotary::kVjepa2); else
  // undefined.
  torch::Tensor second_sine, second_cosine;
};

AttentionWeights attention_weights(const AttentionImpl& attention, const Rotation& rotation);

}  // namespace coldframe::vit

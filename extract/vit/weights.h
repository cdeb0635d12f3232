// Random weights for trying things out and for tests: the same numbers on every machine.
#pragma once

#include <cstdint>

#include "common/torch/tensor.h"
#include "extract/vit/vit.h"

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

// What the engines of cpu/ and gpu/ take from a model whose weights do not change any more.

// The first block starts from these tokens, the same for every image: [prefix tokens + patches,
// width] float on the CPU. Class token and registers, then the bias of the patch embedding, unless
// a norm follows it, for each of `patches` patches; positions are added to all that have one.
torch::Tensor starting_tokens(const VisionTransformerImpl& model, std::int64_t patches);

// An attention's parameters. Numbers that rotary positions turn together lie half a head apart: a
// model that turns neighbours has its queries and keys reordered alike, which leaves their products
// as they were.
struct AttentionWeights {
  torch::Tensor qkv, qkv_bias;  // [3·width, width], [3·width]; no bias: undefined
  // [head width]; undefined without qk_norm, biases with RMS norms.
  torch::Tensor q_norm, q_norm_bias, k_norm, k_norm_bias;
  // [patches, head width / 2], or [heads, …] where heads turn differently; undefined without rotary
  // positions.
  torch::Tensor sine, cosine;
};

AttentionWeights attention_weights(const AttentionImpl& attention, const Rotation& rotation);

}  // namespace coldframe::vit

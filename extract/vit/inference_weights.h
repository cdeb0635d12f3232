// What the engines of cpu/ and gpu/ take from a model whose weights do not change any more.
#pragma once

#include "common/torch/tensor.h"
#include "extract/vit/vit.h"

namespace coldframe::vit {

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

// An attention's parameters as the engines take them: numbers that rotary positions turn together
// lie half a head apart. A model that turns neighbours has its queries and keys reordered alike,
// which leaves their products as they were.
#pragma once

#include "extract/vit/layers/attention.h"

namespace coldframe::vit {

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

// A block's queries and keys change before they meet: by norms (qk_norm), then by rotary positions.
#pragma once

#include "extract/vit/cpu/attention.h"
#include "extract/vit/cpu/norm_weights.h"
#include "extract/vit/inference_weights.h"

namespace coldframe::vit::cpu {

struct QueryKeyChanges {
  QueryKeyChanges(const AttentionWeights& weights, const Architecture& architecture);

  // In place, of the head of that number. Each step computes in float and stores elements.
  void apply(const Kernels& kernels, const Head& head, std::int64_t number) const;

  NormWeights q_norm, k_norm;  // may be empty
  torch::Tensor sine, cosine;  // as AttentionWeights has them
  std::int64_t prefix;         // tokens that are not turned
};

}  // namespace coldframe::vit::cpu

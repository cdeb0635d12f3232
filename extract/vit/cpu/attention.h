// Multi-head self-attention for the CPU engine: a head's keys and values are packed once, then a
// few rows of queries at a time go through scores, softmax and weighted sum without leaving the
// second-level cache (in the manner of FlashAttention, Dao et al. 2022, arXiv:2205.14135; whole
// rows of scores fit, so that the softmax is the plain one).
#pragma once

#include "common/torch/tensor.h"
#include "extract/vit/cpu/kernels.h"

namespace coldframe::vit::cpu {

// One thread needs this memory while it computes a head.
class AttentionScratch {
 public:
  AttentionScratch(const Kernels& kernels, std::int64_t tokens, std::int64_t head_width);

 private:
  friend void attend(const Kernels&, std::int64_t, std::int64_t, std::int64_t, const void*, void*,
                     AttentionScratch&);
  std::int64_t padded_;                   // tokens, filled up to whole panels
  torch::Tensor keys_, values_;           // panels, int32
  torch::Tensor scores_, probabilities_;  // [kQueryRows, padded_]; one buffer in float
  torch::Tensor sums_;                    // [kQueryRows, head width filled up]
};

// One head of one image: out = softmax(q·kᵀ / √d)·v. `qkv` points at the head's first query in
// rows [q of all heads | k of all heads | v of all heads] of 3·width elements, `out` at the head's
// first column in rows of `width` elements. head_width is even with bf16.
void attend(const Kernels& kernels, std::int64_t tokens, std::int64_t head_width,
            std::int64_t width, const void* qkv, void* out, AttentionScratch& scratch);

}  // namespace coldframe::vit::cpu

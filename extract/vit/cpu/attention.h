// Multi-head self-attention for the CPU engine: a head's keys and values are packed once, then a
// few rows of queries at a time go through scores, softmax and weighted sum without leaving the
// second-level cache (in the manner of FlashAttention, Dao et al. 2022, arXiv:2205.14135; whole
// rows of scores fit, so that the softmax is the plain one).
#pragma once

#include "common/torch/tensor.h"
#include "extract/vit/cpu/kernels/kernels.h"

namespace coldframe::vit::cpu {

// One head of one image, in elements.
struct Head {
  std::int64_t tokens, width;
  std::int64_t row;   // of `out`; a row of `qkv` is three times as long
  void* qkv;          // the head's first query in rows [q of all heads | k of all | v of all]
  void* out;          // the head's first column
  const float* bias;  // [tokens, tokens], for the scores before they are scaled; null: none
};

// One thread needs this memory while it computes a head.
class AttentionScratch {
 public:
  AttentionScratch(const Kernels& kernels, std::int64_t tokens, std::int64_t head_width);

 private:
  friend void attend(const Kernels&, const Head&, AttentionScratch&);
  std::int64_t padded_;                   // tokens, filled up to whole panels
  torch::Tensor keys_, values_;           // panels, int32
  torch::Tensor scores_, probabilities_;  // [kQueryRows, padded_]; one buffer in float
  torch::Tensor sums_;                    // [kQueryRows, head width filled up]
};

// out = softmax((q·kᵀ + bias) / √d)·v. The head's width is even with bf16 and fp16.
void attend(const Kernels& kernels, const Head& head, AttentionScratch& scratch);

}  // namespace coldframe::vit::cpu

// The layers of extract/vit/layers with outlines in place of tensors: the same expressions, so that
// temporaries live as long.
#pragma once

#include "train_temporal/tune/costs/costs.h"
#include "train_temporal/tune/costs/tape.h"

namespace coldframe::tune {

class OutlineLayers {
 public:
  OutlineLayers(Tape& tape, const ChainShape& shape, std::uint64_t frames);

  Outline embed();  // of pixels, which are not counted
  Outline half_block(const Outline& x, bool attention);
  Outline parallel_block(const Outline& x);  // BlockKind::kParallelScaling
  Outline pooled(const Outline& tokens);
  Outline features(const Outline& tokens);  // pooled and projected

 private:
  Outline linear(const Outline& x, std::uint64_t in, std::uint64_t out, bool trained);
  // With LoRA's matrices, where there are some, beside the frozen weight.
  Outline tuned_linear(const Outline& x, std::uint64_t in, std::uint64_t out);
  Outline norm(const Outline& x, std::uint64_t width, bool of_heads = false);
  Outline normed_heads(const Outline& x);
  Outline activate(const Outline& x, vit::Activation activation);
  Outline scale(const Outline& x);
  Outline times(const Outline& x, const Outline& y);
  Outline add(const Outline& x, const Outline& y);
  Outline dropped(const Outline& x);
  Outline rotate(const Outline& x);
  Outline scaled_dot_product(const Outline& q, const Outline& k, const Outline& v);
  Outline attention(const Outline& x);
  Outline branch(const Outline& x, bool attention);
  Outline perceptron(const Outline& x, std::uint64_t in, std::uint64_t hidden,
                     vit::Activation activation, bool gated, bool with_norm);
  Outline mean_of_tokens(const Outline& tokens, std::uint64_t rows);
  Outline pooled_by_attention(const Outline& tokens);

  Tape& tape_;
  const ChainShape& shape_;
  const vit::Architecture& vit_;
  std::uint64_t frames_, tokens_, prefix_, width_;
  bool trains_;  // the weights themselves
};

}  // namespace coldframe::tune

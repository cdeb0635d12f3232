// The memory that a thread computes an image in.
#pragma once

#include <algorithm>
#include <vector>

#include "extract/vit/cpu/attention.h"
#include "extract/vit/cpu/engine.h"

namespace coldframe::vit::cpu {

// Rows that pass through the perceptron together, so that its hidden layer stays in the
// second-level cache.
inline constexpr std::int64_t kMlpRows = 200;

struct Engine::Workspace {
  explicit Workspace(const Engine& engine)
      : x(torch::empty({engine.tokens_, engine.architecture_.width})),
        tokens(torch::empty_like(x)) {
    const Architecture& shape = engine.architecture_;
    const auto type = scalar_type(engine.kernels_.element);
    normed = torch::empty({engine.tokens_, shape.width}, type);
    qkv = torch::empty({engine.tokens_, 3 * shape.width}, type);
    hidden = torch::empty({std::min(kMlpRows, engine.tokens_), shape.mlp_hidden}, type);
    const std::int64_t words = engine.patch_embed_.in_words;
    pixels = torch::zeros(
        {engine.grid_.patches(), words * elements_per_word(engine.kernels_.element)}, type);
    attention.emplace_back(engine.kernels_, engine.tokens_, shape.width / shape.heads);
  }

  torch::Tensor x;                          // [tokens, width] float, what the blocks add to
  torch::Tensor tokens;                     // [tokens, width] float, x behind the last norm
  torch::Tensor normed;                     // [tokens, width], also what attention gives
  torch::Tensor qkv;                        // [tokens, 3·width]
  torch::Tensor hidden;                     // [rows, mlp_hidden]
  torch::Tensor pixels;                     // [patches, 3·patch²], filled up to whole words
  std::vector<AttentionScratch> attention;  // one for each thread that shares this image
};

}  // namespace coldframe::vit::cpu

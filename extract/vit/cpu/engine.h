// The CPU engine: the same Vision Transformer as vit.h, computed by kernels of our
// own. An image goes through all blocks on one thread while its numbers stay in the caches; the
// images of a batch are shared among LibTorch's threads, and those that do not fill all threads are
// computed one by one with all threads inside each layer. Nothing is allocated after the first
// batch but the result.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "common/torch/tensor.h"
#include "extract/vit/backbone.h"
#include "extract/vit/cpu/norm_weights.h"
#include "extract/vit/cpu/packed_linear.h"
#include "extract/vit/cpu/query_key.h"
#include "extract/vit/vit.h"

namespace coldframe::vit::cpu {

// Why the engine cannot compute this architecture with these kernels; empty when it can.
std::optional<std::string> refusal(const Architecture& architecture, const Kernels& kernels);

class Engine {
 public:
  // Packs the float weights of `model`, rounded to `weights`; the model is no longer needed then.
  // ConfigError if refusal().
  Engine(const VisionTransformerImpl& model, const ImageSize& image_size, const Kernels& kernels,
         torch::ScalarType weights);

  // images [B, 3, H, W] float, contiguous, on the CPU -> [B, features] float, before the
  // projection. `kept`, where options.cut asks for it, becomes what enters that block: [B, tokens,
  // width].
  torch::Tensor forward(const torch::Tensor& images, const FeatureOptions& options,
                        torch::Tensor* kept = nullptr);
  ~Engine();

 private:
  struct Block {
    NormWeights norm1, norm2, attention_norm, mlp_norm;  // the last two may be empty
    PackedLinear qkv, proj, fc1, fc2;
    QueryKeyChanges changes;
    torch::Tensor relative;  // [heads, tokens, tokens] for Head::bias; undefined: none
  };
  struct Workspace;
  class Pass;  // interprets the model (vit.h) with a part of a block as one operation

  static VisionTransformer without_blocks(const VisionTransformerImpl& model,
                                          const ImageSize& image_size);
  Block pack(const BlockImpl& block, const Rotation& rotation, torch::ScalarType weights) const;
  void take_patches(const float* image, void* pixels, std::int64_t row_bytes) const;
  void normalise(const NormWeights& norm, const float* x, Workspace& work) const;
  void add_attention(const Block& block, float* x, Workspace& work) const;
  void add_mlp(const Block& block, float* x, Workspace& work) const;
  std::int64_t floats_of(Pooling pooling) const;  // of one layer

  const Kernels& kernels_;
  Architecture architecture_;
  ImageSize image_size_;
  Grid grid_;
  std::int64_t tokens_;
  VisionTransformer model_;                       // see without_blocks()
  std::map<const NormImpl*, NormWeights> norms_;  // the model's own
  torch::Tensor start_;                           // [tokens, width]
  PackedLinear patch_embed_;
  Epilogue end_of_fc1_ = nullptr;  // the activation, or the gate
  std::vector<Block> blocks_;
  std::vector<std::unique_ptr<Workspace>> workspaces_;  // one per thread
};

}  // namespace coldframe::vit::cpu

// The CPU engine: the same Vision Transformer as vision_transformer.h, computed by kernels of our
// own. An image goes through all blocks on one thread while its numbers stay in the caches; the
// images of a batch are shared among LibTorch's threads, and those that do not fill all threads are
// computed one by one with all threads inside each layer. Nothing is allocated after the first
// batch but the result.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "common/torch/tensor.h"
#include "extract/vit/backbone.h"
#include "extract/vit/cpu/attention.h"
#include "extract/vit/cpu/packed_linear.h"
#include "extract/vit/vision_transformer.h"

namespace coldframe::vit::cpu {

// Why the engine cannot compute this architecture with these kernels; empty when it can.
std::optional<std::string> refusal(const Architecture& architecture, const Kernels& kernels);

class Engine {
 public:
  // Packs the float weights of `model`, rounded to `weights`; the model is no
  // longer needed then. ConfigError if refusal().
  Engine(const VisionTransformerImpl& model, std::int64_t image_size, const Kernels& kernels,
         torch::ScalarType weights);

  // images [B, 3, S, S] float, contiguous, on the CPU -> [B, D or 2·D] float
  torch::Tensor forward(const torch::Tensor& images, Pooling pooling);
  ~Engine();

 private:
  struct Block {
    torch::Tensor norm1_weight, norm1_bias, norm2_weight, norm2_bias;
    PackedLinear qkv, proj, fc1, fc2;
  };
  struct Workspace;

  void embed(const float* image, Workspace& work) const;
  void run_block(const Block& block, Workspace& work) const;
  void pool(Pooling pooling, Workspace& work, float* out) const;
  void run_image(const float* image, Pooling pooling, Workspace& work, float* out) const;

  const Kernels& kernels_;
  Architecture architecture_;
  std::int64_t image_size_, tokens_, patches_;
  torch::Tensor start_;  // [tokens, width]: prefix tokens, positions and the patches' bias
  PackedLinear patch_embed_;
  std::vector<Block> blocks_;
  torch::Tensor norm_weight_, norm_bias_;               // the final norm, or fc_norm
  std::vector<std::unique_ptr<Workspace>> workspaces_;  // one per thread
};

}  // namespace coldframe::vit::cpu

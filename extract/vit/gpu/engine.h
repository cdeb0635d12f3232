// The GPU engine: the same Vision Transformer as vit.h, computed by cuBLAS, flash
// attention and the fused kernels of extract/cuda, replayed as a CUDA Graph. Written against
// LibTorch's operators and a table of kernels, so that the tests run all of it on the CPU with the
// kernels' twins.
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/torch/tensor.h"
#include "extract/cuda/kernels.h"
#include "extract/vit/backbone.h"
#include "extract/vit/gpu/graphs.h"
#include "extract/vit/gpu/layer_clock.h"
#include "extract/vit/vit.h"

namespace coldframe::vit::gpu {

struct EngineOptions {
  torch::Device device{torch::kCPU};
  torch::ScalarType type = torch::kBFloat16;  // of weights and activations; kFloat, kHalf
  // The blocks add to tensors of this type. In float, sums over many blocks lose nothing; in `type`
  // the norm kernels move fewer bytes.
  torch::ScalarType residual = torch::kFloat;
  // Rows that pass through the perceptron together, so that its hidden layer stays in the second-
  // level cache; 0: all.
  std::int64_t mlp_rows = 0;
  Pooling pooling = Pooling::kCls;
  std::int64_t image_size = 224;
};

// Why the engine cannot compute this architecture; empty when it can.
std::optional<std::string> refusal(const Architecture& architecture);

class Engine {
 public:
  // Casts the float weights of `model` to the device once; the model is no longer needed then.
  // ConfigError if refusal(). `kernels` must compute on the device.
  Engine(const VisionTransformerImpl& model, const EngineOptions& options,
         const cuda::GpuKernels& kernels, MakeGraph make_graph);

  // frames [B, S, S, 3] uint8 and levels [3, 256] float, what each level of each channel becomes,
  // both on the device -> [B, D or 2·D] float there, valid until the next call. Asynchronous on
  // the current stream. c10::OutOfMemoryError, after which all memory but the weights' is given
  // back; SystemError when a kernel fails.
  torch::Tensor forward_frames(const torch::Tensor& frames, const torch::Tensor& levels);

  // images [B, 3, S, S] float, normalised, on the device -> the same.
  torch::Tensor forward_images(const torch::Tensor& images);

  // Measures each kind of layer in a pass over `batch` images, launched and not
  // replayed; it computes whatever lies in the workspace. Behind forward_frames(), which has warmed
  // libraries up. Waits for the device.
  std::vector<LayerCost> measure_layers(std::int64_t batch);

  // Gives back all memory but the weights'; the next call takes what it needs.
  void release_memory();

  // Batches of so many images come from now on: smaller ones are filled up to it, so that libraries
  // see one shape, and the pass is recorded. Before, nothing is.
  void expect(std::int64_t batch);
  std::int64_t expected() const { return expected_; }
  const torch::Device& device() const { return options_.device; }

  // Index arithmetic on the device, in part that of libraries, is in 32 bits.
  std::int64_t most_images() const;

  std::uint64_t graph_bytes() const { return recording_.bytes(); }

 private:
  struct Linear {
    torch::Tensor weight;  // [in, out], a transposed view
    torch::Tensor bias;    // of the product's type; undefined: none, or left to a kernel
  };
  struct Norm {
    torch::Tensor weight, bias;  // float; no weight: no norm
    double epsilon = 0;
    bool centred = true;  // false: RMSNorm, and the bias is zero

    explicit operator bool() const { return weight.defined(); }
    cuda::NormFactors factors() const;
    torch::Tensor of(const torch::Tensor& x) const;  // in float
  };
  struct Block {
    Norm norm1, norm2;
    Linear qkv, proj, fc1, fc2;
    // Float: what the kernels add and scale by; undefined: none.
    torch::Tensor proj_bias, fc1_bias, fc2_bias, scale1, scale2;
    // Plain ViTs have none of these.
    Norm q_norm, k_norm, attention_norm, mlp_norm;
    torch::Tensor sine, cosine;  // float, as AttentionWeights has them
    torch::Tensor relative;      // [1, heads, tokens, tokens], added to the scores
  };
  struct Workspace;

  torch::Tensor floats_on_device(const torch::Tensor& tensor) const;
  Linear cast(const torch::Tensor& weight, const torch::Tensor& bias) const;
  Norm cast(const vit::Norm& layer) const;  // which may be empty
  Norm cast_norm(const torch::Tensor& weight, const torch::Tensor& bias) const;
  Block cast(const BlockImpl& block, const Rotation& rotation) const;
  void cast_attention(const AttentionImpl& attention, const Rotation& rotation, Block& to) const;
  void cast_perceptron(const MlpImpl& mlp, Block& to) const;
  AttentionPool pool_on_device(const AttentionPool& pool) const;
  void reserve(std::int64_t batch);
  torch::Tensor run(std::int64_t batch, const std::function<void()>& fill_patches);
  void compute(std::int64_t batch);
  void embed(std::int64_t batch);
  void attend(const Block& block, std::int64_t batch);
  void attend_class_token(const Block& block, std::int64_t batch);
  void rotate(const Block& block, torch::Tensor& x, std::int64_t heads, std::int64_t batch);
  void project(const Block& block, const torch::Tensor& attended, std::int64_t rows);
  void mlp(const Block& block, std::int64_t rows);
  void add(const torch::Tensor& bias, const torch::Tensor& scale, const Norm& next,
           std::int64_t rows);
  void pool(std::int64_t batch);
  void pool_tokens(std::int64_t batch);
  void multiply(const char* layer, torch::Tensor& out, const torch::Tensor& in,
                const torch::Tensor& weight, const torch::Tensor& bias = {});
  void done(const char* layer, std::initializer_list<torch::Tensor> moved, double operations = 0);
  void check(int error) const;
  void* stream() const;

  EngineOptions options_;
  Architecture architecture_;
  const cuda::GpuKernels& kernels_;
  std::int64_t patches_, tokens_, pitch_;  // of an image; columns of a patch, filled up
  std::int64_t hidden_;                    // of a perceptron, filled up
  torch::Tensor start_;                    // [tokens, width] float
  Linear patch_embed_;
  torch::Tensor patch_bias_;  // float, with patch_norm_ only; undefined: none
  Norm patch_norm_, norm_pre_;
  std::vector<Block> blocks_;
  Norm norm_, fc_norm_;
  AttentionPool attn_pool_;  // LibTorch's operators, in float; may be empty
  std::shared_ptr<Workspace> work_;
  std::int64_t expected_ = 0;    // images; 0: any number
  Recording recording_;          // of a pass over as many
  LayerClock* clock_ = nullptr;  // while layers are measured
};

}  // namespace coldframe::vit::gpu

// The GPU's interpretation of a ViT (layers.h, vit.h). Products, activations, scales, sums and
// norms are noted first. What needs their numbers computes as many of them at once as a kernel of
// extract/cuda or an epilogue of cuBLAS does; the rest is LibTorch's, in float.
#pragma once

#include <initializer_list>
#include <map>
#include <string>
#include <vector>

#include "extract/cuda/kernels.h"
#include "extract/vit/gpu/buffers.h"
#include "extract/vit/gpu/device_weights.h"
#include "extract/vit/gpu/expression.h"
#include "extract/vit/gpu/layer_clock.h"
#include "extract/vit/gpu/options.h"

namespace coldframe::vit::gpu {

class Operations {
 public:
  using Value = gpu::Value;
  using Rotation = const Turn*;
  using Sizes = std::vector<std::int64_t>;

  Operations(const DeviceWeights& weights, const EngineOptions& options,
             const cuda::GpuKernels& kernels);

  Value linear(const Value& x, const torch::Tensor& weight, const torch::Tensor& bias) {
    return later(Product{x, weight, bias});
  }
  Value norm(const Value& x, const NormImpl& layer) { return later(Normed{x, &layer}); }
  Value activated(const Value& x, Activation function) {
    return later(Activated{x, function, false});
  }
  Value gated(const Value& x, Activation function) { return later(Activated{x, function, true}); }
  Value scaled(const Value& x, const torch::Tensor& factors) { return later(Scaled{x, factors}); }
  Value plus(const Value& x, const Value& y) { return later(Sum{x, y}); }
  Value dropped(const Value& x) { return x; }
  Value times(const Value& x, const Value& y) { return value(wide(x) * wide(y)); }
  Value times(const Value& x, double number) { return value(wide(x) * number); }
  Value parameter(const torch::Tensor& tensor) { return value(tensor); }
  std::vector<Value> split(const Value& x, const Sizes& sizes);

  std::vector<Value> heads(const Value& x, std::int64_t parts, std::int64_t heads);
  Value norm_of_heads(const Value& x, const NormImpl& layer);  // in place
  Value rotate(const Value& x, Rotation turn);                 // in place
  Value attend(const Value& q, const Value& k, const Value& v, std::int64_t head_width,
               const torch::Tensor& bias);
  Value merged(const Value& x) { return value(computed(x).transpose(1, 2).flatten(2)); }

  // images [B, patches, pitch]: their patches already
  Value patches(const Value& images, const PatchEmbedImpl& layer);
  Value with_start(const Value& patches, const VisionTransformerImpl&) {
    return later(Start{patches});
  }
  Rotation rotation(const VisionTransformerImpl& model, std::int64_t block, const Value& x);
  Value tokens(const Value& x, std::int64_t from, std::int64_t to);
  Value mean(const Value& x, std::int64_t from, std::int64_t to);
  Value vector(const Value& x) { return value(wide(x).select(1, 0)); }
  Value attention_pool(const Value& seen);
  Value joined(const std::vector<Value>& values);
  Value flattened(const Value& x, std::int64_t) { return value(wide(x).flatten(1)); }
  void kept(const Value& x) { cut_ = computed(x); }

  // images' patches -> [B, features] float, as VisionTransformerImpl::forward() has them
  torch::Tensor features(const torch::Tensor& patches);
  void release_memory() { buffers_.clear(); }
  void set_clock(LayerClock* clock) { clock_ = clock; }
  void set_attention(Attention attention) { attention_ = attention; }

 private:
  enum class End { kNothing, kBias, kBiasAndGelu };

  const torch::Tensor& computed(const Value& x);
  torch::Tensor wide(const Value& x) { return computed(x).to(torch::kFloat); }
  torch::Tensor operand(const Value& x) { return computed(x).to(options_.type); }
  torch::Tensor compute(const Product& product) { return multiply(product, End::kBias); }
  torch::Tensor compute(const Activated& activated);
  torch::Tensor compute(const Scaled& scaled) { return wide(scaled.x) * scaled.factors; }
  torch::Tensor compute(const Sum& sum);
  torch::Tensor compute(const Start& start);
  torch::Tensor compute(const Normed& normed);
  torch::Tensor compute(const std::monostate&) { return {}; }

  torch::Tensor multiply(const Product& product, End end);
  bool ends_in_gelu(const Activated& activated, const Product& product) const;
  torch::Tensor add_and_norm(const Sum& sum, const NormImpl& layer, torch::Tensor& added);
  torch::Tensor start_and_norm(const Start& start, const NormImpl& layer, torch::Tensor& added);
  torch::Tensor behind_start(const Start& start);
  std::vector<Value> class_token_heads(const Product& product, std::int64_t heads);
  torch::Tensor in_type(const torch::Tensor& parameter);
  void done(const std::string& layer, std::initializer_list<torch::Tensor> moved,
            double operations = 0);

  const DeviceWeights& weights_;
  const EngineOptions& options_;
  const cuda::GpuKernels& kernels_;
  TorchOperations torch_;
  Buffers buffers_;
  std::map<const void*, torch::Tensor> rounded_;  // biases, rounded to the products' type
  bool class_token_alone_ = false;                // nothing else leaves this block
  torch::Tensor cut_;                             // what enters options.features.cut
  Attention attention_ = nullptr;                 // in place of LibTorch's choice
  LayerClock* clock_ = nullptr;                   // while layers are measured
};

}  // namespace coldframe::vit::gpu

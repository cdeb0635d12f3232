// LibTorch's interpretation of a ViT: tensors, on any device, with gradients where they are asked
// for. layers.h and vit.h say what each operation is.
#pragma once

#include <functional>
#include <vector>

#include "common/torch/tensor.h"
#include "extract/vit/positions.h"

namespace coldframe::vit {

struct AttentionPoolImpl;
struct NormImpl;
struct PatchEmbedImpl;
struct VisionTransformerImpl;

struct TorchOperations {
  using Value = torch::Tensor;
  using Rotation = vit::Rotation;
  using Sizes = std::vector<std::int64_t>;

  std::function<Value(const Value&)> dropout{};  // of what a part's last product gives
  Value cut{};                                   // becomes what enters options.cut

  Value linear(const Value& x, const Value& weight, const Value& bias) const;
  Value norm(const Value& x, const NormImpl& layer) const;
  Value norm_of_heads(const Value& x, const NormImpl& layer) const { return norm(x, layer); }
  Value gelu(const Value& x) const { return at::gelu(x); }
  Value gelu_tanh(const Value& x) const { return at::gelu(x, "tanh"); }
  Value silu(const Value& x) const { return at::silu(x); }
  Value sigmoid(const Value& x) const { return at::sigmoid(x); }
  Value plus(const Value& x, const Value& y) const { return x + y; }
  Value times(const Value& x, const Value& y) const { return x * y; }
  Value times(const Value& x, double number) const { return x * number; }
  Value scaled(const Value& x, const Value& factors) const { return x * factors; }
  Value parameter(const Value& tensor) const { return tensor; }
  std::vector<Value> split(const Value& x, const Sizes& sizes) const;
  std::vector<Value> heads(const Value& x, std::int64_t parts, std::int64_t heads) const;
  Value rotate(const Value& x, const Rotation& rotation) const { return vit::rotate(x, rotation); }
  Value attend(const Value& q, const Value& k, const Value& v, std::int64_t head_width,
               const Value& bias) const;
  Value merged(const Value& x) const { return x.transpose(1, 2).flatten(2); }
  Value latent_query(const AttentionPoolImpl& pool, const Value& tokens) const;
  Value cut_patches(const Value& images, std::int64_t patch) const;
  Value patches(const Value& images, const PatchEmbedImpl& layer) const;
  Value dropped(const Value& x) const { return dropout ? dropout(x) : x; }

  Value with_start(const Value& patches, const VisionTransformerImpl& model) const;
  Rotation rotation(const VisionTransformerImpl& model, std::int64_t block, const Value& x) const;
  Value tokens(const Value& x, std::int64_t from, std::int64_t to) const {
    return x.slice(1, from, to);
  }
  Value mean(const Value& x, std::int64_t from, std::int64_t to) const {
    return x.slice(1, from, to).mean(1);
  }
  Value vector(const Value& x) const { return x.select(1, 0); }
  Value joined(const std::vector<Value>& values) const { return torch::cat(values, 1); }
  Value flattened(const Value& x, std::int64_t) const { return x.flatten(1); }
  void kept(const Value& x) { cut = x; }
};

}  // namespace coldframe::vit

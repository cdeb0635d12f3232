#include "extract/vit/torch_operations.h"

#include "extract/vit/vit.h"

namespace coldframe::vit {

using Value = TorchOperations::Value;

Value TorchOperations::linear(const Value& x, const Value& weight, const Value& bias) const {
  return at::linear(x, weight, bias);
}

Value TorchOperations::norm(const Value& x, const NormImpl& layer) const {
  return layer.bias.defined()
             ? at::layer_norm(x, {x.size(-1)}, layer.weight, layer.bias, layer.epsilon)
             : at::rms_norm(x, {x.size(-1)}, layer.weight, layer.epsilon);
}

std::vector<Value> TorchOperations::split(const Value& x, const Sizes& sizes) const {
  return x.split_with_sizes(sizes, -1);
}

std::vector<Value> TorchOperations::heads(const Value& x, std::int64_t parts,
                                          std::int64_t heads) const {
  return x.view({x.size(0), x.size(1), parts, heads, x.size(2) / parts / heads})
      .permute({2, 0, 3, 1, 4})  // [parts, B, h, tokens, d]
      .unbind(0);
}

Value TorchOperations::attend(const Value& q, const Value& k, const Value& v, std::int64_t,
                              const Value& bias) const {
  std::optional<Value> added;
  if (bias.defined()) added = bias.to(q.scalar_type());
  return at::scaled_dot_product_attention(q, k, v, added);
}

Value TorchOperations::latent_query(const AttentionPoolImpl& pool, const Value& tokens) const {
  return pool.q->forward(*this, pool.latent)
      .view({1, 1, pool.heads, -1})
      .transpose(1, 2)
      .expand({tokens.size(0), -1, -1, -1});
}

// [B, 3, H, W] -> [B, patches, 3 · patch · patch]
Value TorchOperations::cut_patches(const Value& images, std::int64_t patch) const {
  const std::int64_t batch = images.size(0);
  const std::int64_t rows = images.size(2) / patch, columns = images.size(3) / patch;
  return images.view({batch, 3, rows, patch, columns, patch})
      .permute({0, 2, 4, 1, 3, 5})  // [B, rows, columns, 3, patch, patch]
      .reshape({batch, rows * columns, 3 * patch * patch});
}

// A matrix product stands in for the convolution: on CUDA it keeps clear of cuDNN, whose
// convolutions round float32 to TF32 by default.
Value TorchOperations::patches(const Value& images, const PatchEmbedImpl& layer) const {
  return linear(cut_patches(images, layer.patch), layer.proj->weight.flatten(1), layer.proj->bias);
}

Value TorchOperations::with_start(const Value& patches, const VisionTransformerImpl& model) const {
  std::vector<Value> tokens;
  for (const Value& prefix : {model.cls_token, model.reg_token})
    if (prefix.defined()) tokens.push_back(prefix.expand({patches.size(0), -1, -1}));
  const Value& positions = model.pos_embed;
  const bool of_patches = positions.defined() && !model.architecture.prefix_positions;
  tokens.push_back(of_patches ? patches + positions : patches);
  const Value all = torch::cat(tokens, 1);
  return positions.defined() && !of_patches ? all + positions : all;
}

Rotation TorchOperations::rotation(const VisionTransformerImpl& model, std::int64_t block,
                                   const Value& x) const {
  return model.rotation(block, x.device());
}

}  // namespace coldframe::vit

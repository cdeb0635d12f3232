#include "extract/vit/layers/parallel_block.h"

#include "extract/vit/layers/activation.h"

namespace coldframe::vit {

using AttentionBranch = BranchImpl<Attention>;
using MlpBranch = BranchImpl<Mlp>;

ParallelThingsBlockImpl::ParallelThingsBlockImpl(const Scope& scope, const Architecture& shape) {
  for (std::int64_t i = 0; i < shape.parallel; ++i) {
    attns->push_back(std::make_shared<AttentionBranch>(scope / "attns" / i, "attn", shape));
    ffns->push_back(std::make_shared<MlpBranch>(scope / "ffns" / i, "mlp", shape));
  }
  register_module("attns", attns);
  register_module("ffns", ffns);
}

torch::Tensor ParallelThingsBlockImpl::forward_part(std::size_t part, const torch::Tensor& x,
                                                    const Rotation&, const OutputDropout& dropout) {
  torch::Tensor result = x;
  const auto add = [&](const torch::Tensor& branch) {
    result = result + (dropout ? dropout(branch) : branch);
  };
  if (part == 0)
    for (const auto& branch : *attns) add(branch->as<AttentionBranch>()->forward(x));
  else
    for (const auto& branch : *ffns) add(branch->as<MlpBranch>()->forward(x));
  return result;
}

ParallelScalingBlockImpl::ParallelScalingBlockImpl(const Scope& scope, const Architecture& shape)
    : heads(shape.heads),
      mlp_hidden(shape.mlp_hidden),
      activation(shape.activation),
      in_norm(scope / "in_norm", shape.width, shape),
      in_proj(scope / "in_proj", shape.width, mlp_hidden + 3 * shape.width, shape.qkv_bias),
      attn_out_proj(scope / "attn_out_proj", shape.width, shape.width, shape.projection_bias),
      mlp_out_proj(scope / "mlp_out_proj", mlp_hidden, shape.width, shape.projection_bias) {
  register_module("in_norm", in_norm);
  register_module("in_proj", in_proj);
  if (!shape.qkv_bias)
    mlp_bias = register_parameter("mlp_bias", scope.take("mlp_bias", {mlp_hidden}), false);
  if (shape.qk_norm) {
    q_norm = register_module("q_norm", Norm(scope / "q_norm", shape.width / heads, shape));
    k_norm = register_module("k_norm", Norm(scope / "k_norm", shape.width / heads, shape));
  }
  register_module("attn_out_proj", attn_out_proj);
  register_module("mlp_out_proj", mlp_out_proj);
  if (shape.layer_scale) ls = register_module("ls", LayerScale(scope / "ls", shape.width));
}

torch::Tensor ParallelScalingBlockImpl::forward_part(std::size_t, const torch::Tensor& x,
                                                     const Rotation& rotation,
                                                     const OutputDropout& dropout) {
  const std::int64_t batch = x.size(0), tokens = x.size(1), width = x.size(2);
  const auto parts =
      in_proj->forward(in_norm->forward(x)).split_with_sizes({mlp_hidden, width, width, width}, -1);
  const auto in_heads = [&](const torch::Tensor& part, Norm& norm) {
    const torch::Tensor split = part.reshape({batch, tokens, heads, width / heads});
    return (norm ? norm->forward(split) : split).transpose(1, 2);  // [B, h, tokens, d]
  };
  Norm none{nullptr};
  const torch::Tensor attended =
      at::scaled_dot_product_attention(rotate(in_heads(parts[1], q_norm), rotation),
                                       rotate(in_heads(parts[2], k_norm), rotation),
                                       in_heads(parts[3], none))
          .transpose(1, 2)
          .reshape({batch, tokens, width});
  const torch::Tensor hidden = mlp_bias.defined() ? parts[0] + mlp_bias : parts[0];
  torch::Tensor both =
      attn_out_proj->forward(attended) + mlp_out_proj->forward(activate(hidden, activation));
  if (dropout) both = dropout(both);
  return x + (ls ? ls->forward(both) : both);
}

}  // namespace coldframe::vit

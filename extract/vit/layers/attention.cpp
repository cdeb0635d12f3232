#include "extract/vit/layers/attention.h"

#include "extract/vit/positions/relative_positions.h"

namespace coldframe::vit {

AttentionImpl::AttentionImpl(const Scope& scope, const Architecture& shape)
    : heads(shape.heads),
      grid(shape.position_grid),
      qkv(scope / "qkv", shape.width, 3 * shape.width, shape.qkv_bias),
      proj(scope / "proj", shape.width, shape.width, shape.projection_bias) {
  register_module("qkv", qkv);
  register_module("proj", proj);
  if (shape.qk_norm) {
    q_norm = register_module("q_norm", Norm(scope / "q_norm", shape.width / heads, shape));
    k_norm = register_module("k_norm", Norm(scope / "k_norm", shape.width / heads, shape));
  }
  if (shape.attention_norm)
    norm = register_module("norm", Norm(scope / "norm", shape.width, shape));
  if (!shape.relative_positions) return;
  const std::int64_t side = 2 * grid - 1;
  relative_position_bias_table = register_parameter(
      "relative_position_bias_table",
      scope.take("relative_position_bias_table", {side * side + 3, heads}), false);
  if (!relative_position_bias_table.is_meta())
    relative = register_buffer("relative", relative_bias(relative_position_bias_table, grid));
}

torch::Tensor AttentionImpl::forward(const torch::Tensor& x, const Rotation& rotation) {
  const std::int64_t batch = x.size(0), tokens = x.size(1), width = x.size(2);
  const auto parts = qkv->forward(x)  // [B, tokens, 3·width]
                         .view({batch, tokens, 3, heads, width / heads})
                         .permute({2, 0, 3, 1, 4})  // [3, B, h, tokens, d]
                         .unbind(0);
  const torch::Tensor q = rotate(q_norm ? q_norm->forward(parts[0]) : parts[0], rotation);
  const torch::Tensor k = rotate(k_norm ? k_norm->forward(parts[1]) : parts[1], rotation);
  std::optional<torch::Tensor> bias;
  if (relative.defined()) {
    // A table that is trained changes with every step, and its gradient goes through the bias.
    const bool trained = relative_position_bias_table.requires_grad();
    bias = (trained ? relative_bias(relative_position_bias_table, grid) : relative)
               .to(q.scalar_type());
  }
  const torch::Tensor attended =
      at::scaled_dot_product_attention(q, k, parts[2], bias)  // [B, h, tokens, d]
          .transpose(1, 2)
          .reshape({batch, tokens, width});
  return proj->forward(norm ? norm->forward(attended) : attended);
}

}  // namespace coldframe::vit

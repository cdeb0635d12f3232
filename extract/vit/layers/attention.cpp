#include "extract/vit/layers/attention.h"

namespace coldframe::vit {

AttentionImpl::AttentionImpl(const Scope& scope, const Architecture& architecture)
    : heads(architecture.heads),
      qkv(scope / "qkv", architecture.width, 3 * architecture.width, architecture.qkv_bias),
      proj(scope / "proj", architecture.width, architecture.width) {
  register_module("qkv", qkv);
  register_module("proj", proj);
}

torch::Tensor AttentionImpl::forward(const torch::Tensor& x) {
  const std::int64_t batch = x.size(0), tokens = x.size(1), width = x.size(2);
  const auto parts = qkv->forward(x)  // [B, tokens, 3·width]
                         .view({batch, tokens, 3, heads, width / heads})
                         .permute({2, 0, 3, 1, 4})  // [3, B, h, tokens, d]
                         .unbind(0);
  const torch::Tensor attended =
      at::scaled_dot_product_attention(parts[0], parts[1], parts[2]);  // [B, h, tokens, d]
  return proj->forward(attended.transpose(1, 2).reshape({batch, tokens, width}));
}

}  // namespace coldframe::vit

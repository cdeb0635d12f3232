#include "extract/vit/layers/attention_pool.h"

namespace coldframe::vit {

namespace {

// The perceptron of the pooling is a plain one, whatever those of the blocks are.
Architecture pool_architecture(Architecture shape) {
  shape.mlp_hidden = shape.pool_hidden;
  shape.activation = shape.pool_activation;
  shape.gated_mlp = shape.mlp_norm = false;
  shape.projection_bias = true;
  return shape;
}

}  // namespace

AttentionPoolImpl::AttentionPoolImpl(const Scope& scope, const Architecture& shape)
    : heads(shape.pool_heads),
      q(scope / "q", shape.width, shape.width),
      kv(scope / "kv", shape.width, 2 * shape.width),
      proj(scope / "proj", shape.width, shape.width),
      norm(scope / "norm", shape.width, shape),
      mlp(scope / "mlp", pool_architecture(shape)) {
  latent = register_parameter("latent", scope.take("latent", {1, 1, shape.width}), false);
  register_module("q", q);
  register_module("kv", kv);
  register_module("proj", proj);
  register_module("norm", norm);
  register_module("mlp", mlp);
}

torch::Tensor AttentionPoolImpl::forward(const torch::Tensor& tokens) {
  const std::int64_t batch = tokens.size(0), count = tokens.size(1), width = tokens.size(2);
  const torch::Tensor query = q->forward(latent)
                                  .view({1, 1, heads, width / heads})
                                  .transpose(1, 2)
                                  .expand({batch, -1, -1, -1});  // [B, h, 1, d]
  const auto parts = kv->forward(tokens)
                         .view({batch, count, 2, heads, width / heads})
                         .permute({2, 0, 3, 1, 4})  // [2, B, h, tokens, d]
                         .unbind(0);
  const torch::Tensor attended =
      proj->forward(at::scaled_dot_product_attention(query, parts[0], parts[1])
                        .transpose(1, 2)
                        .reshape({batch, width}));
  return attended + mlp->forward(norm->forward(attended));
}

}  // namespace coldframe::vit

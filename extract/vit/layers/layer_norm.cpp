#include "extract/vit/layers/layer_norm.h"

namespace coldframe::vit {

LayerNormImpl::LayerNormImpl(const Scope& scope, std::int64_t width) {
  weight = register_parameter("weight", scope.take("weight", {width}), false);
  bias = register_parameter("bias", scope.take("bias", {width}), false);
}

torch::Tensor LayerNormImpl::forward(const torch::Tensor& x) {
  return at::layer_norm(x, {x.size(-1)}, weight, bias, /*eps=*/1e-6);
}

}  // namespace coldframe::vit

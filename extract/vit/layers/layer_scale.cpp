#include "extract/vit/layers/layer_scale.h"

namespace coldframe::vit {

LayerScaleImpl::LayerScaleImpl(const Scope& scope, std::int64_t width) {
  gamma = register_parameter("gamma", scope.take("gamma", {width}), false);
}

torch::Tensor LayerScaleImpl::forward(const torch::Tensor& x) {
  return x * gamma;
}

}  // namespace coldframe::vit

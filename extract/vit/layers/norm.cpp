#include "extract/vit/layers/norm.h"

namespace coldframe::vit {

NormImpl::NormImpl(const Scope& scope, std::int64_t width, const Architecture& architecture)
    : epsilon(architecture.norm_epsilon) {
  weight = register_parameter("weight", scope.take("weight", {width}), false);
  if (!architecture.rms_norm) bias = register_parameter("bias", scope.take("bias", {width}), false);
}

torch::Tensor NormImpl::forward(const torch::Tensor& x) {
  return bias.defined() ? at::layer_norm(x, {x.size(-1)}, weight, bias, epsilon)
                        : at::rms_norm(x, {x.size(-1)}, weight, epsilon);
}

}  // namespace coldframe::vit

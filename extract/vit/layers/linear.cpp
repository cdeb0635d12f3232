#include "extract/vit/layers/linear.h"

namespace coldframe::vit {

torch::Tensor apply_linear(const torch::Tensor& x, const torch::Tensor& weight,
                           const torch::Tensor& bias) {
  return at::linear(x, weight, bias);
}

LinearImpl::LinearImpl(const Scope& scope, std::int64_t in, std::int64_t out, bool with_bias) {
  weight = register_parameter("weight", scope.take("weight", {out, in}), false);
  if (with_bias) bias = register_parameter("bias", scope.take("bias", {out}), false);
}

torch::Tensor LinearImpl::forward(const torch::Tensor& x) {
  const torch::Tensor product = apply_linear(x, weight, bias);
  if (!lora_down.defined()) return product;
  return product + lora_scale * apply_linear(apply_linear(x, lora_down, {}), lora_up, {});
}

}  // namespace coldframe::vit

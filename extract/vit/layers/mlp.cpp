#include "extract/vit/layers/mlp.h"

namespace coldframe::vit {

MlpImpl::MlpImpl(const Scope& scope, const Architecture& architecture)
    : fc1(scope / "fc1", architecture.width, architecture.mlp_hidden),
      fc2(scope / "fc2", architecture.mlp_hidden, architecture.width) {
  register_module("fc1", fc1);
  register_module("fc2", fc2);
}

torch::Tensor MlpImpl::forward(const torch::Tensor& x) {
  return fc2->forward(at::gelu(fc1->forward(x)));
}

}  // namespace coldframe::vit

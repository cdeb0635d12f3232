#include "extract/vit/layers/mlp.h"

#include "extract/vit/layers/activation.h"

namespace coldframe::vit {

MlpImpl::MlpImpl(const Scope& scope, const Architecture& shape)
    : activation(shape.activation),
      gated(shape.gated_mlp),
      fc1(scope / "fc1", shape.width, (gated ? 2 : 1) * shape.mlp_hidden, shape.projection_bias),
      fc2(scope / "fc2", shape.mlp_hidden, shape.width, shape.projection_bias) {
  register_module("fc1", fc1);
  register_module("fc2", fc2);
  if (shape.mlp_norm) norm = register_module("norm", Norm(scope / "norm", shape.mlp_hidden, shape));
}

torch::Tensor MlpImpl::forward(const torch::Tensor& x) {
  torch::Tensor hidden = fc1->forward(x);
  if (gated) {
    const auto parts = hidden.chunk(2, -1);
    hidden = activate(parts[0], activation) * parts[1];
  } else {
    hidden = activate(hidden, activation);
  }
  return fc2->forward(norm ? norm->forward(hidden) : hidden);
}

}  // namespace coldframe::vit

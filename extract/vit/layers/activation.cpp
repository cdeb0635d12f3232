#include "extract/vit/layers/activation.h"

namespace coldframe::vit {

torch::Tensor activate(const torch::Tensor& x, Activation activation) {
  switch (activation) {
    case Activation::kGelu:
      return at::gelu(x);
    case Activation::kGeluTanh:
      return at::gelu(x, "tanh");
    case Activation::kQuickGelu:
      return x * at::sigmoid(1.702 * x);
    case Activation::kSilu:
      return at::silu(x);
  }
  return {};
}

}  // namespace coldframe::vit

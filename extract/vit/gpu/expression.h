// What the GPU's operations give: a tensor, or how one will be made of others.
#pragma once

#include <memory>
#include <variant>

#include "common/torch/tensor.h"
#include "extract/vit/layers.h"

namespace coldframe::vit::gpu {

struct Expression;
using Value = std::shared_ptr<Expression>;

struct Product {  // x · weightᵀ + bias
  Value x;
  torch::Tensor weight, bias;  // [out, in], [out]; no bias: undefined
};
struct Activated {  // f(x), or with a gate f(g) · v of x's halves
  Value x;
  Activation function;
  bool gated;
};
struct Scaled {
  Value x;
  torch::Tensor factors;  // [width]
};
struct Sum {  // y may be of the first tokens alone; so is the sum then
  Value x, y;
};
struct Start {  // the tokens that enter block 0, of those of the patches
  Value patches;
};
struct Normed {
  Value x;
  const NormImpl* layer;
};

struct Expression {
  torch::Tensor tensor;  // undefined until somebody needs it
  std::variant<std::monostate, Product, Activated, Scaled, Sum, Start, Normed> how{};
};

inline Value value(torch::Tensor tensor) {
  return std::make_shared<Expression>(Expression{std::move(tensor)});
}
template <class How>
Value later(How how) {
  return std::make_shared<Expression>(Expression{{}, std::move(how)});
}
// How it will be made, if it is not there yet and will be made so.
template <class How>
const How* pending(const Value& x) {
  return x->tensor.defined() ? nullptr : std::get_if<How>(&x->how);
}

}  // namespace coldframe::vit::gpu

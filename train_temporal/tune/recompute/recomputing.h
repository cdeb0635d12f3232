// Which results of a ViT's operations need not be kept for the backward pass, since they are
// computed again from what is kept. TensorRecipes computes so.
#pragma once

#include <cstdint>
#include <vector>

#include "common/torch/tensor.h"
#include "extract/vit/vit.h"
#include "train_temporal/tune/schedule/schedule.h"

namespace coldframe::tune {

enum class Again {
  kPointwise,  // as cheap as reading and writing the values
  kProduct,    // a matrix product that gives at least as many values as it takes
  kWide,       // one that gives more than three times as many
  kFollows     // pointwise, but worth it only where what must be kept for it takes fewer bytes than
               // its result. What enters the step is kept anyway; what is computed again is not
};

// Whether a graph drops a result of so many bytes. `stays()`: the bytes that would have to be kept
// for it.
template <class Stays>
bool drops(Keep keep, Again kind, const Stays& stays, std::uint64_t bytes) {
  if (keep == Keep::kWhole) return false;
  if (kind == Again::kFollows) return stays() < bytes;
  if (kind == Again::kWide && keep == Keep::kSlim) return true;
  return kind == Again::kPointwise || keep == Keep::kLean;
}

// An interpreter, and beside its operations (extract/vit/layers.h):
//   cast(x)                                 in autocast's type, which products take
//   product(x, factors, weight, bias)       linear, of what is cast already
//   is_parameter(x)
//   again(kind, inputs, compute)            compute(ops, inputs), whose result may be dropped
template <class Base>
struct Recomputing : Base {
  using Base::Base;
  using Value = typename Base::Value;
  using Rotation = typename Base::Rotation;
  using Inputs = std::vector<Value>;

  Value linear(const Value& x, const torch::Tensor& weight, const torch::Tensor& bias) {
    const Inputs inputs{cast(x), cast(this->parameter(weight))};
    const auto compute = [weight, bias](Base& ops, const Inputs& in) {
      return ops.product(in[0], in[1], weight, bias);
    };
    const std::int64_t takes = weight.size(1), gives = weight.size(0);
    if (gives < takes) return compute(*this, inputs);
    return this->again(gives > 3 * takes ? Again::kWide : Again::kProduct, inputs, compute);
  }
  Value cast(const Value& x) {
    return pointwise({x}, [](Base& ops, const Inputs& in) { return ops.cast(in[0]); });
  }

  Value norm(const Value& x, const vit::NormImpl& layer) {
    return pointwise({x}, [&layer](Base& ops, const Inputs& in) { return ops.norm(in[0], layer); });
  }
  Value norm_of_heads(const Value& x, const vit::NormImpl& layer) {
    return pointwise(
        {x}, [&layer](Base& ops, const Inputs& in) { return ops.norm_of_heads(in[0], layer); });
  }
  Value gelu(const Value& x) {
    return pointwise({x}, [](Base& ops, const Inputs& in) { return ops.gelu(in[0]); });
  }
  Value gelu_tanh(const Value& x) {
    return pointwise({x}, [](Base& ops, const Inputs& in) { return ops.gelu_tanh(in[0]); });
  }
  Value silu(const Value& x) {
    return pointwise({x}, [](Base& ops, const Inputs& in) { return ops.silu(in[0]); });
  }
  Value sigmoid(const Value& x) {
    return pointwise({x}, [](Base& ops, const Inputs& in) { return ops.sigmoid(in[0]); });
  }
  Value times(const Value& x, const Value& y) {
    return pointwise({x, y}, [](Base& ops, const Inputs& in) { return ops.times(in[0], in[1]); });
  }
  Value times(const Value& x, double number) {
    return pointwise({x},
                     [number](Base& ops, const Inputs& in) { return ops.times(in[0], number); });
  }
  // A sum's operands would be kept for it alone, except where a bias is added. That pays where they
  // are smaller: the residual stream is float32, and what a layer adds may be in half precision.
  Value plus(const Value& x, const Value& y) {
    return this->again(this->is_parameter(y) ? Again::kPointwise : Again::kFollows, {x, y},
                       [](Base& ops, const Inputs& in) { return ops.plus(in[0], in[1]); });
  }
  Value scaled(const Value& x, const torch::Tensor& factors) {
    return pointwise({x},
                     [factors](Base& ops, const Inputs& in) { return ops.scaled(in[0], factors); });
  }
  Value rotate(const Value& x, const Rotation& rotation) {
    return pointwise(
        {x}, [rotation](Base& ops, const Inputs& in) { return ops.rotate(in[0], rotation); });
  }
  Value patches(const Value& images, const vit::PatchEmbedImpl& layer) {
    const auto compute = [patch = layer.patch](Base& ops, const Inputs& in) {
      return ops.cut_patches(in[0], patch);
    };
    return linear(pointwise({images}, compute), layer.proj->weight.flatten(1), layer.proj->bias);
  }
  Value merged(const Value& x) {
    return pointwise({x}, [](Base& ops, const Inputs& in) { return ops.merged(in[0]); });
  }

 private:
  template <class Compute>
  Value pointwise(const Inputs& inputs, const Compute& compute) {
    return this->again(Again::kPointwise, inputs, compute);
  }
};

}  // namespace coldframe::tune

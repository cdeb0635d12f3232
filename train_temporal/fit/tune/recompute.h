// How a value that a graph has dropped comes back on the way back.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/torch/tensor.h"
#include "extract/vit/vit.h"
#include "train_temporal/fit/tune/schedule.h"

namespace coldframe::tune {

// Held: torch::Tensor, or a tensor's outline. The value is computed when it is first wanted, and
// stays as long as nodes of the graph wait for it: of a product that several need, once.
template <class Held>
class Recipe {
 public:
  explicit Recipe(std::function<Held()> compute) : compute_(std::move(compute)) {}

  Held value() {
    if (has_) return held_;
    Held found = compute_();
    if (waiting_ > 0) held_ = found, has_ = true;
    return found;
  }
  // A node waits for the value until it has run, or is dropped.
  void wait() { ++waiting_; }
  void give_up() {
    if (--waiting_ > 0) return;
    held_ = Held();
    has_ = false;
  }

 private:
  std::function<Held()> compute_;
  Held held_{};
  bool has_ = false;
  int waiting_ = 0;
};

// Which results of a ViT's operations need not be kept for the backward pass, since they are
// computed again from what is kept. TensorRecipes computes so.

enum class Recompute {
  kAlways,     // as cheap as reading and writing the values
  kExpanding,  // a matrix product that gives at least as many values as it takes
  kWithInput   // pointwise, but worth it only where what must be kept for it takes fewer bytes than
               // its result. What enters the step is kept anyway; what is computed again is not
};

// Whether a graph drops a result of so many bytes. `stays()`: the bytes that would have to be kept
// for it.
template <class Stays>
bool drops(Keep keep, Recompute kind, const Stays& stays, std::uint64_t bytes) {
  if (keep == Keep::kWhole) return false;
  if (kind == Recompute::kWithInput) return stays() < bytes;
  return kind == Recompute::kAlways || keep == Keep::kLean;
}

// An interpreter, and beside its operations (extract/vit/vit.h):
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
    const bool gives_less = weight.size(0) < weight.size(1);
    return gives_less ? compute(*this, inputs)
                      : this->again(Recompute::kExpanding, inputs, compute);
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
    return this->again(this->is_parameter(y) ? Recompute::kAlways : Recompute::kWithInput, {x, y},
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
    return this->again(Recompute::kAlways, inputs, compute);
  }
};

// Operations whose way back needs little memory at once, with LibTorch's own formulas and so the
// same bits. Autograd's hold all that a node has saved until it returns, and make each gradient
// anew.

// x [..., in] · weight [out, in]ᵀ + bias [out], or undefined. The weight's gradient comes first;
// then what it needs, x, goes, before x's gradient is made.
torch::Tensor frugal_linear(const torch::Tensor& x, const torch::Tensor& weight,
                            const torch::Tensor& bias);
// at::gelu(x, approximate). The gradient becomes that of x in its place.
torch::Tensor frugal_gelu(const torch::Tensor& x, const std::string& approximate);

// It is the whole of its memory, which no other tensor shares.
bool has_its_own_memory(const torch::Tensor& tensor);

// Graphs of LibTorch's autograd that keep less: what an operation saves for the backward pass is
// dropped where it can be computed again, by hooks on autograd's saved tensors. Its own formulas of
// gradients see the same numbers, so that gradients have the same bits.

using TensorRecipe = Recipe<torch::Tensor>;

// A tensor that stays, or a view of one that is computed again.
struct KeptTensor {
  torch::Tensor tensor;  // undefined: of the recipe's value, with these
  std::shared_ptr<TensorRecipe> recipe{};
  std::vector<std::int64_t> sizes{}, strides{};
  std::int64_t offset = 0;

  void use(std::shared_ptr<TensorRecipe> recipe);
  torch::Tensor view_of(const torch::Tensor& value) const {
    return value.as_strided(sizes, strides, offset);
  }
};

// While it lives, what this thread's operations save goes by it.
class TensorRecipes {
 public:
  using Tensors = std::vector<torch::Tensor>;
  using Compute = std::function<torch::Tensor(const Tensors&)>;
  TensorRecipes(Keep keep, torch::ScalarType precision);
  ~TensorRecipes();
  TensorRecipes(const TensorRecipes&) = delete;
  TensorRecipes& operator=(const TensorRecipes&) = delete;

  torch::Tensor run(Recompute kind, const Tensors& inputs, const Compute& compute);
  // For a node of the graph that saves this tensor.
  std::shared_ptr<KeptTensor> pack(const torch::Tensor& tensor);

 private:
  using Storage = c10::weak_intrusive_ptr<c10::StorageImpl>;
  struct Entry {
    Storage storage;  // which it computes; its address stays taken
    std::shared_ptr<TensorRecipe> recipe;
  };
  std::shared_ptr<TensorRecipe> recipe_of(const torch::Tensor& tensor) const;
  KeptTensor keep(const torch::Tensor& tensor) const;
  bool may_drop(Recompute kind, const Tensors& inputs, const torch::Tensor& result) const;

  Keep keep_;
  torch::ScalarType precision_;
  std::vector<Entry> entries_;
  std::vector<std::weak_ptr<KeptTensor>> packed_;  // by the operation that runs
};

// LibTorch's operations, whose results the recipes know; without recipes every one is kept, as
// autograd does.
struct RecordedOperations : vit::TorchOperations {
  torch::ScalarType precision = torch::kFloat32;
  TensorRecipes* recipes = nullptr;
  bool frugal = false;  // on the way back

  Value cast(const Value& x) const {
    return x.scalar_type() == torch::kFloat32 ? x.to(precision) : x;
  }
  Value product(const Value& x, const Value& factors, const torch::Tensor&,
                const torch::Tensor& bias) const {
    return frugal ? frugal_linear(x, factors, bias) : linear(x, factors, bias);
  }
  Value gelu(const Value& x) const { return frugal ? frugal_gelu(x, "none") : at::gelu(x); }
  Value gelu_tanh(const Value& x) const {
    return frugal ? frugal_gelu(x, "tanh") : at::gelu(x, "tanh");
  }
  bool is_parameter(const Value& x) const { return x.dim() == 1; }
  template <class Compute>
  Value again(Recompute kind, const std::vector<Value>& inputs, const Compute& compute) {
    if (!recipes) return compute(*this, inputs);
    const auto anew = [compute, type = precision](const std::vector<Value>& values) {
      RecordedOperations ops;
      ops.precision = type;
      ops.frugal = true;
      return compute(ops, values);
    };
    return recipes->run(kind, inputs, anew);
  }
};

}  // namespace coldframe::tune

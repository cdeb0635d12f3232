// Graphs of LibTorch's autograd that keep less: what an operation saves for the way back is dropped
// where it can be computed again (recomputing.h), by hooks on autograd's saved tensors. Its own
// formulas of gradients see the same numbers, so that gradients have the same bits.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "common/torch/tensor.h"
#include "extract/vit/vit.h"
#include "train_temporal/tune/recompute/frugal_gradients.h"
#include "train_temporal/tune/recompute/recipe.h"
#include "train_temporal/tune/recompute/recomputing.h"
#include "train_temporal/tune/schedule/schedule.h"

namespace coldframe::tune {

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

  torch::Tensor run(Again kind, const Tensors& inputs, const Compute& compute);
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
  bool may_drop(Again kind, const Tensors& inputs, const torch::Tensor& result) const;

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
  Value again(Again kind, const std::vector<Value>& inputs, const Compute& compute) {
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

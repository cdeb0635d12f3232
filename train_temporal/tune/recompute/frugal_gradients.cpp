#include "train_temporal/tune/recompute/frugal_gradients.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

namespace coldframe::tune {
namespace {

using torch::autograd::Node;
using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

// A node's next edges, in this order; that of an undefined bias leads nowhere.
enum : std::size_t { kInput, kWeight, kBias };

// As derivatives.yaml has addmm and mm, of a weight that lies transposed.
class LinearGradient : public Node {
 public:
  LinearGradient(const torch::Tensor& x, const torch::Tensor& weight, const torch::Tensor& bias)
      : Node(torch::autograd::collect_next_edges(x, weight, bias)), sizes_(x.sizes().vec()) {
    if (should_compute_output(kWeight)) x_ = SavedVariable(x, /*is_output=*/false);
    if (should_compute_output(kInput)) weight_ = SavedVariable(weight, /*is_output=*/false);
  }

  variable_list apply(variable_list&& gradients) override {
    variable_list found(3);
    if (!gradients[0].defined()) return found;
    torch::Tensor given = std::move(gradients[0]);
    given = given.flatten(0, -2);  // a copy where it is a part of a larger one, which goes
    if (should_compute_output(kBias)) found[kBias] = given.sum(0);
    if (should_compute_output(kWeight)) {
      found[kWeight] = given.t().mm(x_.unpack().flatten(0, -2));
      x_.reset_data();
    }
    if (should_compute_output(kInput))  // a view would hold its base, so that it shared its memory
      found[kInput] = at::_unsafe_view(given.mm(weight_.unpack()), sizes_);
    return found;
  }
  void release_variables() override {
    x_.reset_data();
    weight_.reset_data();
  }

 private:
  std::vector<std::int64_t> sizes_;
  SavedVariable x_, weight_;
};

class GeluGradient : public Node {
 public:
  GeluGradient(const torch::Tensor& x, std::string approximate)
      : Node(torch::autograd::collect_next_edges(x)),
        approximate_(std::move(approximate)),
        x_(x, /*is_output=*/false) {}

  variable_list apply(variable_list&& gradients) override {
    torch::Tensor given = std::move(gradients[0]);
    if (!given.defined()) return {given};
    const torch::Tensor x = x_.unpack();
    if (given.use_count() > 1 || !has_its_own_memory(given))
      return {at::gelu_backward(given, x, approximate_)};
    at::gelu_backward_out(given, given, x, approximate_);
    return {std::move(given)};
  }
  void release_variables() override { x_.reset_data(); }

 private:
  std::string approximate_;
  SavedVariable x_;
};

// What `compute` gives, with this node for its gradient where one is wanted.
template <class Gradient, class Compute, class... Arguments>
torch::Tensor with_gradient(const Compute& compute, const torch::Tensor& x,
                            const Arguments&... arguments) {
  torch::Tensor result;
  {
    const torch::NoGradGuard no_grad;
    result = compute();
  }
  std::shared_ptr<Gradient> node(new Gradient(x, arguments...), torch::autograd::deleteNode);
  torch::autograd::set_history(result, node);
  return result;
}

bool wants_gradient(std::initializer_list<torch::Tensor> tensors) {
  return at::GradMode::is_enabled() &&
         std::ranges::any_of(tensors, [](const torch::Tensor& tensor) {
           return tensor.defined() && tensor.requires_grad();
         });
}

}  // namespace

torch::Tensor frugal_linear(const torch::Tensor& x, const torch::Tensor& weight,
                            const torch::Tensor& bias) {
  const auto compute = [&] { return at::linear(x, weight, bias); };
  return wants_gradient({x, weight, bias}) ? with_gradient<LinearGradient>(compute, x, weight, bias)
                                           : compute();
}

torch::Tensor frugal_gelu(const torch::Tensor& x, const std::string& approximate) {
  const auto compute = [&] { return at::gelu(x, approximate); };
  return wants_gradient({x}) ? with_gradient<GeluGradient>(compute, x, approximate) : compute();
}

bool has_its_own_memory(const torch::Tensor& tensor) {
  return tensor.storage().use_count() == 1 && tensor.storage().nbytes() == tensor.nbytes() &&
         tensor.is_non_overlapping_and_dense();
}

}  // namespace coldframe::tune

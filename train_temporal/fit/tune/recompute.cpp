#include "train_temporal/fit/tune/recompute.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>
#include <algorithm>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

#include "common/torch/internals.h"
#include "train_temporal/models/operations.h"

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
  torch::autograd::set_history(result, make_node<Gradient>(x, arguments...));
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

namespace {

thread_local TensorRecipes* current = nullptr;

// What a node of the graph saves.
class Hook : public torch::autograd::SavedVariableHooks {
 public:
  explicit Hook(TensorRecipes& recipes) : recipes_(&recipes) {}
  ~Hook() override {
    if (kept_ && kept_->recipe) kept_->recipe->give_up();
  }
  Hook(const Hook&) = delete;
  Hook& operator=(const Hook&) = delete;

  void call_pack_hook(const at::Tensor& tensor) override { kept_ = recipes_->pack(tensor); }
  at::Tensor call_unpack_hook() override {
    return kept_->recipe ? kept_->view_of(kept_->recipe->value()) : kept_->tensor;
  }

 private:
  TensorRecipes* recipes_;
  std::shared_ptr<KeptTensor> kept_;
};

// Autograd asks its engine for the hooks of a tensor that it saves. All else is LibTorch's own
// engine's: queues and threads of devices are started once in a process, for the engine that runs
// first (initialize_device_threads_pool() in torch/csrc/autograd/engine.cpp).
class Engine : public torch::autograd::Engine {
 public:
  static torch::autograd::Engine& get() {
    static Engine engine;
    return engine;
  }
  torch::autograd::variable_list execute(const torch::autograd::edge_list& roots,
                                         const torch::autograd::variable_list& inputs,
                                         bool keep_graph, bool create_graph, bool accumulate_grad,
                                         const torch::autograd::edge_list& outputs) override {
    return get_base_engine().execute(roots, inputs, keep_graph, create_graph, accumulate_grad,
                                     outputs);
  }
  c10::intrusive_ptr<at::ivalue::Future> execute_with_graph_task(
      const std::shared_ptr<torch::autograd::GraphTask>& task, NodePtr root,
      torch::autograd::InputBuffer&& buffer) override {
    return get_base_engine().execute_with_graph_task(task, std::move(root), std::move(buffer));
  }
  std::unique_ptr<torch::autograd::SavedVariableHooks> get_default_saved_variable_hooks() override {
    return current ? std::make_unique<Hook>(*current) : nullptr;
  }
};

}  // namespace

void KeptTensor::use(std::shared_ptr<TensorRecipe> made) {
  recipe = std::move(made);
  sizes = tensor.sizes().vec();
  strides = tensor.strides().vec();
  offset = tensor.storage_offset();
  tensor.reset();
}

TensorRecipes::TensorRecipes(Keep keep, torch::ScalarType precision)
    : keep_(keep), precision_(precision) {
  static const bool installed = [] {
    torch::autograd::set_default_engine_stub(&Engine::get);
    return true;
  }();
  current = installed && keep != Keep::kWhole ? this : nullptr;
}
TensorRecipes::~TensorRecipes() {
  current = nullptr;
}

std::shared_ptr<TensorRecipe> TensorRecipes::recipe_of(const torch::Tensor& tensor) const {
  const auto* const storage = tensor.storage().unsafeGetStorageImpl();
  const auto found = std::ranges::find_if(
      entries_, [&](const Entry& entry) { return entry.storage._unsafe_get_target() == storage; });
  return found == entries_.end() ? nullptr : found->recipe;
}

KeptTensor TensorRecipes::keep(const torch::Tensor& tensor) const {
  KeptTensor kept{tensor.detach()};
  if (auto recipe = recipe_of(tensor)) kept.use(std::move(recipe));
  return kept;
}

std::shared_ptr<KeptTensor> TensorRecipes::pack(const torch::Tensor& tensor) {
  auto kept = std::make_shared<KeptTensor>(keep(tensor));
  if (kept->recipe)
    kept->recipe->wait();
  else
    packed_.emplace_back(kept);
  return kept;
}

bool TensorRecipes::may_drop(Recompute kind, const Tensors& inputs,
                             const torch::Tensor& result) const {
  const auto stays = [&] {
    std::size_t bytes = 0;
    for (const torch::Tensor& x : inputs) bytes += x.is_leaf() || recipe_of(x) ? 0 : x.nbytes();
    return bytes;
  };
  return drops(keep_, kind, stays, result.nbytes());
}

torch::Tensor TensorRecipes::run(Recompute kind, const Tensors& inputs, const Compute& compute) {
  packed_.clear();
  std::erase_if(entries_, [](const Entry& entry) { return entry.storage.expired(); });
  torch::Tensor result = compute(inputs);
  const bool is_view =
      std::ranges::any_of(inputs, [&](const torch::Tensor& x) { return x.is_alias_of(result); });
  if (is_view || !may_drop(kind, inputs, result)) return result;
  std::vector<KeptTensor> kept;
  for (const torch::Tensor& input : inputs) kept.push_back(keep(input));
  const auto anew = [kept = std::move(kept), compute, type = precision_] {
    const torch::NoGradGuard no_grad;
    Tensors values;
    for (const KeptTensor& each : kept)
      values.push_back(each.recipe ? each.view_of(each.recipe->value()) : each.tensor);
    const temporal::Autocast autocast({type}, values[0].device());
    return compute(values);
  };
  auto recipe = std::make_shared<TensorRecipe>(anew);
  for (const std::weak_ptr<KeptTensor>& each : packed_) {  // the operation may save its result
    const auto saved = each.lock();
    if (!saved || !saved->tensor.is_alias_of(result)) continue;
    saved->use(recipe);
    recipe->wait();
  }
  entries_.push_back({result.storage().getWeakStorageImpl(), std::move(recipe)});
  return result;
}

}  // namespace coldframe::tune

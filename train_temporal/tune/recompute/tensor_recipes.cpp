#include "train_temporal/tune/recompute/tensor_recipes.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <algorithm>
#include <utility>

#include "train_temporal/models/mixed_precision.h"

namespace coldframe::tune {
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
      const std::shared_ptr<torch::autograd::GraphTask>& task,
      std::shared_ptr<torch::autograd::Node> root, torch::autograd::InputBuffer&& buffer) override {
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

bool TensorRecipes::may_drop(Again kind, const Tensors& inputs, const torch::Tensor& result) const {
  const auto stays = [&] {
    std::size_t bytes = 0;
    for (const torch::Tensor& x : inputs) bytes += x.is_leaf() || recipe_of(x) ? 0 : x.nbytes();
    return bytes;
  };
  return drops(keep_, kind, stays, result.nbytes());
}

torch::Tensor TensorRecipes::run(Again kind, const Tensors& inputs, const Compute& compute) {
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

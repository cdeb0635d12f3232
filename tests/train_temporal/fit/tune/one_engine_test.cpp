// Backward passes where the hooks of recomputation are installed, as a GPU needs them: on queues
// and threads of a device. The device is made up.
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/engine.h>

#include "common/torch/internals.h"
#include "train_temporal/fit/tune/recompute.h"

namespace coldframe::tune {
namespace {

using torch::autograd::Edge;
using torch::autograd::Node;
using torch::autograd::variable_list;

constexpr auto kMadeUp = c10::DeviceType::PrivateUse1;
C10_REGISTER_GUARD_IMPL(PrivateUse1, c10::impl::NoOpDeviceGuardImpl<kMadeUp>)

// A program's first backward pass may come before any tuning: on cached features.
void install_hooks_after_a_backward_pass() {
  const torch::Tensor x = torch::ones({1}, torch::requires_grad());
  (2 * x).backward();
  const TensorRecipes installed(Keep::kCheap, torch::kFloat32);
}

// Passes no gradient on, and counts its calls.
class Silent : public Node {
 public:
  explicit Silent(const torch::Device& device) {
    add_input_metadata(torch::TensorOptions().device(device), std::vector<c10::SymInt>{1}, false,
                       false, torch::kFloat32);
  }
  variable_list apply(variable_list&&) override {
    ++calls;
    return variable_list(num_outputs());
  }

  int calls = 0;
};

TEST(OneEngine, RunsNodesOfADeviceOnThatDevicesQueue) {
  install_hooks_after_a_backward_pass();
  const auto first = make_node<Silent>(torch::kCPU);
  const auto second = make_node<Silent>(torch::Device(kMadeUp, 0));
  first->add_next_edge(Edge(second, 0));
  torch::autograd::Engine::get_default_engine().execute({Edge(first, 0)}, {torch::ones({1})}, false,
                                                        false, true);
  EXPECT_EQ(first->calls, 1);
  EXPECT_EQ(second->calls, 1);
}

// x, whose backward pass runs that of another one: so deep that LibTorch goes on in other threads.
struct Nested : public torch::autograd::Function<Nested> {
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& x,
                               std::int64_t depth) {
    context->saved_data["depth"] = depth;
    return x.clone();
  }
  static variable_list backward(torch::autograd::AutogradContext* context,
                                const variable_list& gradients) {
    const std::int64_t depth = context->saved_data["depth"].toInt();
    if (depth == 0) return {gradients[0], torch::Tensor()};
    const torch::AutoGradMode with_graph(true);
    const torch::Tensor x = torch::ones({1}, torch::requires_grad());
    const torch::Tensor inner = Nested::apply(x, depth - 1);
    return {gradients[0] * torch::autograd::grad({inner}, {x})[0], torch::Tensor()};
  }
};

TEST(OneEngine, RunsBackwardPassesWithinOneAnother) {
  install_hooks_after_a_backward_pass();
  const torch::Tensor x = torch::full({1}, 3.0, torch::requires_grad());
  const torch::Tensor y = Nested::apply(2 * x, 70);
  EXPECT_EQ(torch::autograd::grad({y}, {x})[0].item<double>(), 2);
}

}  // namespace
}  // namespace coldframe::tune

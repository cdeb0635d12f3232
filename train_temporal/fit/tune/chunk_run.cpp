#include "train_temporal/fit/tune/chunk_run.h"

#include <torch/csrc/autograd/autograd.h>

#include <utility>

#include "train_temporal/fit/tune/recompute.h"

namespace coldframe::tune {
namespace {

// Memory may run out in the first loop alone, before any sum has changed: the caller runs the step
// again, which would add it twice.
void add_gradients(const std::vector<torch::Tensor>& parameters,
                   std::span<torch::Tensor> gradients) {
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const bool becomes_the_sum = gradients[i].defined() && !parameters[i].grad().defined();
    if (becomes_the_sum && !has_its_own_memory(gradients[i])) gradients[i] = gradients[i].clone();
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (!gradients[i].defined()) continue;  // another part of the block has it
    torch::Tensor& sum = parameters[i].mutable_grad();
    if (sum.defined())
      sum.add_(gradients[i]);
    else
      sum = std::move(gradients[i]);
    gradients[i].reset();
  }
}

}  // namespace

ChunkRun::ChunkRun(const Chain& chain, std::size_t steps, Schedule schedule, Values input,
                   const Pass& pass)
    : chain_(chain),
      schedule_(std::move(schedule)),
      pass_(pass),
      first_(chain.first_trained()),
      values_(steps + 1),
      graphs_(steps),
      remaining_(steps) {
  values_[0] = std::move(input);
}

const Values& ChunkRun::forward() {
  while (next_ < schedule_.size() && schedule_[next_].action != Action::kBackward)
    run_forward(schedule_[next_++]);
  return values_.back();
}

void ChunkRun::backward(Values gradient) {
  gradient_ = std::move(gradient);
  while (next_ < schedule_.size()) {
    const Operation operation = schedule_[next_++];
    if (operation.action == Action::kBackward)
      run_backward(operation.step);
    else
      run_forward(operation);
  }
}

void ChunkRun::run_forward(const Operation& operation) {
  const std::size_t step = operation.step;
  if (operation.action == Action::kForwardWithGraph) return run_with_graph(operation);
  const torch::NoGradGuard no_grad;
  values_[step + 1] = chain_.forward(first_ + step, values_[step], pass_);
  if (operation.action == Action::kForward) values_[step].clear();
}

void ChunkRun::run_with_graph(const Operation& operation) {
  const std::size_t step = operation.step;
  const torch::AutoGradMode with_graph(true);
  Values input;
  for (const torch::Tensor& value : values_[step]) {
    input.push_back(value.detach());
    input.back().set_requires_grad(step > 0);  // nothing before the first step is trained
  }
  graphs_[step] = chain_.forward(first_ + step, input, pass_, operation.keep);
  values_[step] = std::move(input);
  for (const torch::Tensor& value : graphs_[step]) values_[step + 1].push_back(value.detach());
}

void ChunkRun::run_backward(std::size_t step) {
  const std::vector<torch::Tensor>& trained = chain_.trained(first_ + step);
  const std::size_t inputs = step > 0 ? values_[step].size() : 0;
  std::vector<torch::Tensor> wanted, outputs, gradients;
  wanted.insert(wanted.end(), values_[step].begin(),
                values_[step].begin() + static_cast<std::ptrdiff_t>(inputs));
  wanted.insert(wanted.end(), trained.begin(), trained.end());
  for (std::size_t i = 0; i < graphs_[step].size(); ++i) {
    if (!graphs_[step][i].requires_grad()) continue;
    outputs.push_back(graphs_[step][i]);
    gradients.push_back(gradient_[i]);
  }
  std::vector<torch::Tensor> found = torch::autograd::grad(
      outputs, wanted, gradients, /*retain_graph=*/false, /*create_graph=*/false,
      /*allow_unused=*/true);
  outputs.clear();
  gradients.clear();
  graphs_[step].clear();
  values_[step].clear();
  values_[step + 1].clear();
  add_gradients(trained, std::span(found).subspan(inputs));
  gradient_.assign(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(inputs));
  remaining_ = step;
}

}  // namespace coldframe::tune

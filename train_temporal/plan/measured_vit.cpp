#include "train_temporal/plan/measured_vit.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/cuda.h>

#include <algorithm>
#include <chrono>

#include "common/torch/device_memory.h"
#include "extract/vit/random_weights.h"
#include "train_temporal/tune/chain.h"
#include "train_temporal/tune/chunk_run.h"
#include "train_temporal/tune/trained_parameters.h"
#include "train_temporal/tune/tuned_vit.h"

namespace coldframe::plan {
namespace {

using tune::ChainShape;
using tune::StepCost;
using tune::Values;

// The recipe of a cache of such a ViT.
Json recipe_of(const ChainShape& shape) {
  Json recipe;
  recipe["backbone"] = {{"kind", "random"},
                        {"generator", vit::kRandomWeightsVersion},
                        {"seed", 0},
                        {"architecture", vit::to_json(shape.architecture)},
                        {"pooling", vit::to_string(shape.features.pooling)}};
  if (!shape.features.layers.empty()) recipe["backbone"]["layers"] = shape.features.layers;
  if (shape.projected > 0) recipe["backbone"]["projection"] = shape.projected;
  recipe["preprocessing"] = {{"image_size", {shape.image_size.height, shape.image_size.width}},
                             {"resampler", "pillow"},
                             {"mean", {0.485, 0.456, 0.406}},
                             {"std", {0.229, 0.224, 0.225}}};
  return recipe;
}

// Bytes and time from its construction on.
class Meter {
 public:
  explicit Meter(const torch::Device& device)
      : device_(device), before_(live_device_memory(device)) {
    reset_device_memory_peak(device);
    wait();
    start_ = std::chrono::steady_clock::now();
  }
  std::uint64_t peak() const { return peak_device_memory(device_) - before_; }
  std::uint64_t stays() const { return live_device_memory(device_) - before_; }
  double seconds() const {
    wait();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  // A GPU computes behind the processor.
  void wait() const {
    if (device_.is_cuda()) torch::cuda::synchronize(device_.index());
  }

  torch::Device device_;
  std::uint64_t before_;
  std::chrono::steady_clock::time_point start_;
};

std::uint64_t bytes_of(const Values& values) {
  std::uint64_t bytes = 0;
  for (const torch::Tensor& value : values) bytes += value.nbytes();
  return bytes;
}

}  // namespace

class MeasuredVit::Parts {
 public:
  Parts(const ChainShape& shape, const torch::Device& device)
      : shape_(shape),
        device_(device),
        source_(recipe_of(shape), shape.cut, {}),
        model_(tune::make_tuned_model(source_, options(), 0, device)),
        chain_(model_, source_.features(), shape.cut, source_.levels().to(device)),
        first_(chain_.first_trained()) {}

  std::vector<StepCost> steps(std::int64_t frames) {
    std::vector<StepCost> costs;
    Values values{first_input(frames)};
    for (std::size_t step = 0; first_ + step < chain_.size(); ++step) {
      StepCost cost;
      cost.graphs.resize(tune::keeps(shape_.eight_bits).size());
      const torch::NoGradGuard no_grad;
      Values next = forward(step, values, cost);
      for (const tune::Keep keep : cost.keeps()) backward(step, values, keep, cost);
      costs.push_back(cost);
      values = std::move(next);
    }
    return costs;
  }

  tune::Use follow(const tune::Schedule& schedule, std::int64_t frames) {
    for (std::size_t step = 0; step < chain_.size(); ++step)
      for (const torch::Tensor& parameter : chain_.trained(step))
        parameter.mutable_grad() = torch::zeros_like(parameter);
    torch::Tensor input;
    if (!shape_.input_by_chunk()) input = first_input(frames);
    const Meter meter(device_);
    tune::ChunkRun run(chain_, chain_.size() - first_, schedule,
                       {input.defined() ? input : first_input(frames)}, pass());
    torch::Tensor gradient = torch::ones_like(run.forward()[0]);
    run.backward({std::move(gradient)});
    return {meter.peak(), meter.seconds()};
  }

  tune::Use step(std::uint64_t budget, std::int64_t exams, std::int64_t frames) {
    tune::TuneOptions with_budget = options();
    with_budget.budget = budget;
    with_budget.precision = pass().precision;
    tune::TunedVit tuned(source_, with_budget, 0, device_);
    for (const torch::Tensor& parameter : tuned.trainable().parameters())
      parameter.mutable_grad() = torch::zeros_like(parameter);
    const torch::Tensor rows = stored_rows(exams * frames);
    const Meter meter(device_);
    for (std::int64_t from = 0, to = 0; from < exams; from = to) {
      const std::int64_t left = exams - from;
      const std::int64_t at_once = left > 1 ? tuned.rows_at_once(left * frames) / frames : 1;
      to = from + std::max(at_once, std::int64_t{1});
      const std::vector<std::uint64_t> keys(static_cast<std::size_t>((to - from) * frames));
      tuned.step(rows.slice(0, from * frames, to * frames), keys, {},
                 [](const torch::Tensor& features) { return torch::ones_like(features); });
    }
    return {meter.peak(), meter.seconds()};
  }

 private:
  tune::TuneOptions options() const {
    tune::TuneOptions options;
    options.blocks = shape_.blocks;
    options.lora_rank = shape_.lora_rank;
    options.eight_bits = shape_.eight_bits;
    return options;
  }
  // Rows in the form that a cache's cut holds.
  torch::Tensor stored_rows(std::int64_t frames) const {
    const auto [height, width] = shape_.image_size;
    if (shape_.cut == 0) return torch::full({frames, height, width, 3}, 100, torch::kUInt8);
    return torch::randn({frames, shape_.tokens(), shape_.architecture.width}).to(torch::kHalf);
  }
  torch::Tensor first_input(std::int64_t frames) const {
    const auto [height, width] = shape_.image_size;
    if (shape_.whole())
      return torch::full({frames, height, width, 3}, 100, torch::kUInt8).to(device_);
    return torch::randn({frames, shape_.tokens(), shape_.architecture.width}).to(device_);
  }
  tune::Pass pass() const {
    tune::Pass found;
    found.precision = shape_.half ? torch::kBFloat16 : torch::kFloat32;
    return found;
  }
  Values run(std::size_t step, const Values& input, tune::Keep keep) const {
    return chain_.forward(first_ + step, input, pass(), keep);
  }

  Values forward(std::size_t step, const Values& input, StepCost& cost) const {
    const Meter meter(device_);
    Values output = run(step, input, tune::Keep::kWhole);
    cost.output = bytes_of(output);
    cost.forward_extra = meter.peak() - cost.output;
    cost.forward = meter.seconds();
    return output;
  }

  void backward(std::size_t step, const Values& given, tune::Keep keep, StepCost& cost) const {
    tune::GraphCost& graph = cost.graph(keep);
    const torch::AutoGradMode with_graph(true);
    Values input, wanted;
    for (const torch::Tensor& value : given) {
      input.push_back(value.detach());
      if (step == 0) continue;
      input.back().set_requires_grad(true);
      wanted.push_back(input.back());
    }
    const std::vector<torch::Tensor>& trained = chain_.trained(first_ + step);
    wanted.insert(wanted.end(), trained.begin(), trained.end());
    const Meter forward_meter(device_);
    const Values output = run(step, input, keep);
    graph.saved = forward_meter.stays() - cost.output;
    graph.graph_extra = forward_meter.peak() - forward_meter.stays();
    const double seconds = forward_meter.seconds();
    const double packing = keep == tune::Keep::kRounded ? std::max(seconds - cost.forward, 0.0) : 0;
    cost.forward = std::min(cost.forward, seconds);
    Values gradients;
    for (const torch::Tensor& value : output) gradients.push_back(torch::ones_like(value));
    for (const torch::Tensor& parameter : trained)
      parameter.mutable_grad() = torch::zeros_like(parameter);
    const Meter meter(device_);
    const auto found =
        torch::autograd::grad(output, wanted, gradients, false, false, /*allow_unused=*/true);
    for (std::size_t i = 0; i < trained.size(); ++i) {
      const torch::Tensor& gradient = found[found.size() - trained.size() + i];
      if (gradient.defined()) trained[i].mutable_grad().add_(gradient);
    }
    const std::uint64_t input_gradients = step == 0 ? 0 : bytes_of(given);
    graph.backward_extra = meter.peak() - std::min(meter.peak(), input_gradients);
    graph.backward = meter.seconds() + packing;
  }

  ChainShape shape_;
  torch::Device device_;
  tune::TunedSource source_;
  vit::VisionTransformer model_;
  tune::Chain chain_;
  std::size_t first_;  // trained step
};

MeasuredVit::MeasuredVit(const ChainShape& shape, const torch::Device& device)
    : parts_(std::make_unique<Parts>(shape, device)) {}
MeasuredVit::~MeasuredVit() = default;

std::vector<StepCost> MeasuredVit::steps(std::int64_t frames) {
  return parts_->steps(frames);
}

tune::Use MeasuredVit::follow(const tune::Schedule& schedule, std::int64_t frames) {
  return parts_->follow(schedule, frames);
}

tune::Use MeasuredVit::step(std::uint64_t budget, std::int64_t exams, std::int64_t frames) {
  return parts_->step(budget, exams, frames);
}

}  // namespace coldframe::plan

#include "train_temporal/tune/costs/costs.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "common/text/text.h"
#include "train_temporal/tune/costs/outline_operations.h"

namespace coldframe::tune {
namespace {

struct ChainStep {
  enum Kind { kEmbed, kBlock, kHead } kind;
  std::int64_t block = 0;
  bool tap = false;  // the block's input is one of the layers

  bool operator==(const ChainStep&) const = default;
};

std::vector<ChainStep> chain_steps(const ChainShape& shape) {
  const std::vector<std::int64_t> layers = vit::layers_of(shape.features, shape.architecture);
  std::vector<ChainStep> steps;
  if (shape.whole()) steps.push_back({ChainStep::kEmbed});
  for (std::int64_t block = shape.first_block(); block < layers.back(); ++block)
    steps.push_back({ChainStep::kBlock, block, std::ranges::find(layers, block) != layers.end()});
  steps.push_back({ChainStep::kHead});
  return steps;
}

std::uint64_t unsigned_of(std::int64_t value) {
  return static_cast<std::uint64_t>(value);
}

// Names and shapes of the model's tensors, without memory.
class OutlineSource : public vit::WeightSource {
 public:
  torch::Tensor take(const std::string&, torch::IntArrayRef shape) override {
    return torch::empty(shape, torch::kMeta);
  }
};

// One block of the model, since all are alike; what is trained requires a gradient.
vit::VisionTransformer outline_model(const ChainShape& shape) {
  vit::Architecture one_block = shape.architecture;
  one_block.depth = 1;
  OutlineSource weights;
  vit::VisionTransformer model(vit::Scope(weights), one_block, shape.image_size, shape.projected);
  if (shape.lora_rank == 0) {
    for (torch::Tensor& parameter : model->parameters()) parameter.set_requires_grad(true);
    return model;
  }
  for (auto& item : model->named_modules("", /*include_self=*/false)) {
    if (!has_low_rank(item.key())) continue;
    auto& layer = *item.value()->as<vit::LinearImpl>();
    const auto matrix = [](std::int64_t rows, std::int64_t columns) {
      return torch::empty({rows, columns}, torch::kMeta).set_requires_grad(true);
    };
    layer.lora_down = matrix(shape.lora_rank, layer.weight.size(1));
    layer.lora_up = matrix(layer.weight.size(0), shape.lora_rank);
  }
  return model;
}

class StepMeter {
 public:
  StepMeter(const ChainShape& shape, vit::VisionTransformer model, std::int64_t frames)
      : shape_(shape), model_(std::move(model)), frames_(unsigned_of(frames)) {}

  StepCost measure(const ChainStep& step, bool input_needs_gradient) const {
    StepCost cost;
    cost.graphs.resize(keeps(shape_.eight_bits).size());
    run(step, input_needs_gradient, nullptr, Keep::kWhole, cost);
    for (const Keep keep : cost.keeps())
      run(step, input_needs_gradient, &cost.graph(keep), keep, cost);
    return cost;
  }

 private:
  using Operations = Recomputing<OutlineOperations>;

  // With a graph where there is one.
  void run(const ChainStep& step, bool input_needs_gradient, GraphCost* graph, Keep keep,
           StepCost& cost) const {
    Tape tape(graph != nullptr, shape_.half, shape_.cuda ? 512 : 1);
    Operations ops(tape, shape_, frames_, keep);
    Outline x = step.kind == ChainStep::kEmbed
                    ? Outline{}
                    : tape.tensor(frames_ * static_cast<std::uint64_t>(shape_.tokens() *
                                                                       shape_.architecture.width),
                                  4);
    if (input_needs_gradient) x = tape.with_gradient(x);
    const std::uint64_t before = tape.ledger().live;
    Outline tapped;
    if (step.tap) tapped = pooled(tape, ops, x);
    const Outline result = run_step(tape, ops, step, x);
    for (const Outline& each : {result, tapped})  // recipes end with the pass
      if (each.memory) each.memory->recipe.reset();
    const std::uint64_t output = result.bytes() + tapped.bytes();
    cost.output = output;
    const std::uint64_t live = tape.ledger().live, peak = tape.ledger().peak;
    if (!graph) {
      cost.forward_extra = peak - before - output;
      cost.forward = tape.forward_work();
      return;
    }
    graph->saved = live - before - output;
    graph->graph_extra = peak - live;
    const Outline gradient = tape.tensor(result.elements, result.width);
    tape.restart_peak();
    if (result.node) tape.backward(result, gradient);
    const std::uint64_t beside = tape.ledger().peak - live - gradient.bytes();
    const std::uint64_t input_gradient = input_needs_gradient ? x.bytes() : 0;
    graph->backward_extra = beside - std::min(beside, input_gradient);
    // With a graph the pass forward may take longer: it packs what is kept in 8 bits.
    graph->backward = tape.backward_work() + (tape.forward_work() - cost.forward);
  }

  // Levels of pixels are looked up channel by channel and put side by side.
  Outline embed(Tape& tape, Operations& ops) const {
    const std::uint64_t values = frames_ * unsigned_of(shape_.image_size.pixels());
    const auto images_of = [&tape, values](OutlineOperations&, const std::vector<Outline>&) {
      std::vector<Outline> channels;
      for (int channel = 0; channel < 3; ++channel) {
        Operator lookup{{}, values, 4};
        lookup.forward_temporary = 5 * values;  // the channel's bytes, and the same as int32
        channels.push_back(tape.run(lookup));
      }
      return tape.run({{}, 3 * values, 4});
    };
    return model_->embed(ops, ops.again(Again::kPointwise, {Outline{}}, images_of));
  }

  Outline pooled(Tape& tape, Operations& ops, const Outline& tokens) const {
    return tape.cast(model_->pooled(ops, tokens, shape_.features.pooling), 4);
  }

  Outline run_step(Tape& tape, Operations& ops, const ChainStep& step, const Outline& x) const {
    if (step.kind == ChainStep::kEmbed) return embed(tape, ops);
    if (step.kind == ChainStep::kBlock)
      return model_->block(0).forward(ops, x, shape_.architecture.rotary != vit::Rotary::kNone);
    const Outline features = pooled(tape, ops, x);
    return model_->projection ? tape.cast(model_->projection->forward(ops, features), 4) : features;
  }

  const ChainShape& shape_;
  vit::VisionTransformer model_;
  std::uint64_t frames_;
};

ChunkCost cost_of(const ChainShape& shape, const vit::VisionTransformer& model,
                  std::int64_t frames) {
  const StepMeter meter(shape, model, frames);
  ChunkCost cost;
  std::vector<std::pair<ChainStep, StepCost>> known;  // blocks are alike
  for (ChainStep step : chain_steps(shape)) {
    const bool first = cost.chain.empty();
    step.block = first ? -1 : 0;
    auto same = std::ranges::find(known, step, &std::pair<ChainStep, StepCost>::first);
    if (same == known.end()) same = known.insert(same, {step, meter.measure(step, !first)});
    cost.chain.push_back(same->second);
  }
  if (shape.input_by_chunk())
    cost.input = unsigned_of(frames) *
                 (shape.whole() ? unsigned_of(3 * shape.image_size.pixels()) : shape.token_bytes());
  return cost;
}

std::string step_name(const ChainStep& step) {
  if (step.kind == ChainStep::kEmbed) return "patch embedding";
  if (step.kind == ChainStep::kHead) return "norm and pooling";
  return concat("block ", step.block);
}

}  // namespace

std::int64_t ChainShape::tokens() const {
  return architecture.prefix_tokens() + vit::Grid(image_size, architecture.patch).patches();
}

std::int64_t ChainShape::feature_count() const {
  if (projected > 0) return projected;
  const std::int64_t patches = vit::Grid(image_size, architecture.patch).patches();
  return vit::pooled_features(features.pooling, architecture, patches) *
         static_cast<std::int64_t>(vit::layers_of(features, architecture).size());
}

std::uint64_t ChainShape::token_bytes() const {
  return unsigned_of(4 * tokens() * architecture.width);
}

std::uint64_t ChainShape::attention_bytes() const {
  return unsigned_of(4 * architecture.heads * tokens() * tokens());
}

bool has_low_rank(std::string_view layer) {
  return layer.starts_with("blocks.") &&
         std::ranges::any_of(
             std::array<std::string_view, 4>{".qkv", ".proj", ".in_proj", ".attn_out_proj"},
             [&](std::string_view end) { return layer.ends_with(end); });
}

std::vector<std::string> step_names(const ChainShape& shape) {
  std::vector<std::string> names;
  for (const ChainStep& step : chain_steps(shape)) names.push_back(step_name(step));
  return names;
}

ChunkCost chunk_cost(const ChainShape& shape, std::int64_t frames) {
  return cost_of(shape, outline_model(shape), frames);
}

StepTask step_task(const ChainShape& shape, std::int64_t frames) {
  StepTask task;
  task.frames = frames;
  task.feature_bytes = unsigned_of(4 * shape.feature_count());
  if (!shape.whole() && !shape.input_by_chunk()) task.fixed = shape.token_bytes();
  task.chunks = std::make_shared<ChunkUses>(
      [shape, model = outline_model(shape)](std::int64_t n) { return cost_of(shape, model, n); });
  return task;
}

}  // namespace coldframe::tune

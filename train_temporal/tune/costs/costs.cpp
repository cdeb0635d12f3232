#include "train_temporal/tune/costs/costs.h"

#include <algorithm>

#include "common/text/text.h"
#include "extract/vit/positions/grid.h"
#include "train_temporal/tune/costs/outline_layers.h"

namespace coldframe::tune {
namespace {

struct ChainStep {
  enum Kind { kEmbed, kAttention, kMlp, kBoth, kHead } kind;
  std::int64_t block = 0;
  bool tap = false;  // the block's input is one of the layers

  bool operator==(const ChainStep&) const = default;
};

std::vector<ChainStep> chain_steps(const ChainShape& shape) {
  const std::vector<std::int64_t> layers = vit::layers_of(shape.features, shape.architecture);
  std::vector<ChainStep> steps;
  if (shape.whole()) steps.push_back({ChainStep::kEmbed});
  for (std::int64_t block = shape.first_block(); block < layers.back(); ++block) {
    const bool tap = std::ranges::find(layers, block) != layers.end();
    if (shape.architecture.block == vit::BlockKind::kParallelScaling) {
      steps.push_back({ChainStep::kBoth, block, tap});
      continue;
    }
    steps.push_back({ChainStep::kAttention, block, tap});
    steps.push_back({ChainStep::kMlp, block});
  }
  steps.push_back({ChainStep::kHead});
  return steps;
}

Outline run_step(OutlineLayers& layers, const ChainStep& step, const Outline& x) {
  switch (step.kind) {
    case ChainStep::kEmbed:
      return layers.embed();
    case ChainStep::kAttention:
    case ChainStep::kMlp:
      return layers.half_block(x, step.kind == ChainStep::kAttention);
    case ChainStep::kBoth:
      return layers.parallel_block(x);
    case ChainStep::kHead:
      return layers.features(x);
  }
  return {};
}

class StepMeter {
 public:
  StepMeter(const ChainShape& shape, std::int64_t frames)
      : shape_(shape), frames_(static_cast<std::uint64_t>(frames)) {}

  StepCost measure(const ChainStep& step, bool input_needs_gradient) const {
    StepCost cost;
    run(step, input_needs_gradient, false, cost);
    run(step, input_needs_gradient, true, cost);
    return cost;
  }

 private:
  void run(const ChainStep& step, bool input_needs_gradient, bool graph, StepCost& cost) const {
    Tape tape(graph, shape_.half, shape_.cuda ? 512 : 1);
    OutlineLayers layers(tape, shape_, frames_);
    Outline x = step.kind == ChainStep::kEmbed
                    ? Outline{}
                    : tape.tensor(frames_ * static_cast<std::uint64_t>(shape_.tokens() *
                                                                       shape_.architecture.width),
                                  4);
    if (input_needs_gradient) x = tape.with_gradient(x);
    const std::uint64_t before = tape.ledger().live;
    Outline tapped;
    if (step.tap) tapped = layers.pooled(x);
    const Outline result = run_step(layers, step, x);
    const std::uint64_t output = result.bytes() + tapped.bytes();
    cost.output = output;
    const std::uint64_t live = tape.ledger().live, peak = tape.ledger().peak;
    if (!graph) {
      cost.forward_extra = peak - before - output;
      cost.forward = tape.forward_work();
      return;
    }
    cost.saved = live - before - output;
    cost.graph_extra = peak - live;
    const Outline gradient = tape.tensor(result.elements, result.width);
    tape.restart_peak();
    if (result.node) tape.backward(result, gradient);
    const std::uint64_t beside = tape.ledger().peak - live - gradient.bytes();
    const std::uint64_t input_gradient = input_needs_gradient ? x.bytes() : 0;
    cost.backward_extra = beside - std::min(beside, input_gradient);
    cost.backward = tape.backward_work();
  }

  const ChainShape& shape_;
  std::uint64_t frames_;
};

std::string step_name(const ChainStep& step) {
  switch (step.kind) {
    case ChainStep::kEmbed:
      return "patch embedding";
    case ChainStep::kAttention:
      return concat("block ", step.block, " attention");
    case ChainStep::kMlp:
      return concat("block ", step.block, " MLP");
    case ChainStep::kBoth:
      return concat("block ", step.block);
    case ChainStep::kHead:
      return "norm and pooling";
  }
  return "";
}

std::uint64_t unsigned_of(std::int64_t value) {
  return static_cast<std::uint64_t>(value);
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

std::vector<std::string> step_names(const ChainShape& shape) {
  std::vector<std::string> names;
  for (const ChainStep& step : chain_steps(shape)) names.push_back(step_name(step));
  return names;
}

ChunkCost chunk_cost(const ChainShape& shape, std::int64_t frames) {
  const StepMeter meter(shape, frames);
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

StepTask step_task(const ChainShape& shape, std::int64_t frames) {
  StepTask task;
  task.frames = frames;
  task.feature_bytes = unsigned_of(4 * shape.feature_count());
  if (!shape.whole() && !shape.input_by_chunk())
    task.fixed = unsigned_of(frames) * shape.token_bytes();
  task.cost = [shape](std::int64_t n) { return chunk_cost(shape, n); };
  return task;
}

}  // namespace coldframe::tune

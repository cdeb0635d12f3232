#include "train_temporal/fit/tune/measured_costs.h"

#include <c10/util/Exception.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <ranges>
#include <set>
#include <utility>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "common/torch/memory.h"
#include "train_temporal/fit/tune/chain.h"
#include "train_temporal/fit/tune/trained_parameters.h"

namespace coldframe::tune {
namespace {

double highest(const Growth& lines, std::int64_t frames) {
  double most = 0;
  for (const Line& line : lines) most = std::max(most, line.at(frames));
  return most;
}

std::uint64_t bytes(double value) {
  return static_cast<std::uint64_t>(std::llround(std::max(value, 0.0)));
}

// Those of one frame and more that are somewhere the highest.
Growth upper_hull(std::vector<Line> lines) {
  std::ranges::sort(lines, [](const Line& a, const Line& b) {
    return a.at(1) != b.at(1) ? a.at(1) > b.at(1) : a.each > b.each;
  });
  Growth hull;
  if (!lines.empty()) hull.push_back(lines.front());
  for (bool found = !lines.empty(); found;) {
    found = false;
    double nearest = 0;
    const Line last = hull.back();
    Line next;
    for (const Line& line : lines) {
      if (line.each <= last.each) continue;
      const double crossing = (last.base - line.base) / (line.each - last.each);
      if (found && (crossing > nearest || (crossing == nearest && line.each < next.each))) continue;
      found = true;
      nearest = crossing;
      next = line;
    }
    if (found) hull.push_back(next);
  }
  return hull;
}

using Rises = std::vector<std::int64_t>;  // live bytes behind each allocation

// What one step took for so many frames.
struct Sample {
  struct Graph {
    std::int64_t saved = 0, input_gradient = 0;
    Rises forward, backward;
    double seconds = 0;
  };
  std::int64_t frames = 0, output = 0, gradient = 0, handed = 0;
  Rises forward;
  double seconds = 0;
  std::vector<Graph> graphs = std::vector<Graph>(std::size(kKeeps));

  const Graph& graph(Keep keep) const { return graphs[static_cast<std::size_t>(keep)]; }
  // A graph that keeps less takes longer on its way back, by at most a pass forward. What says
  // otherwise is a slow moment: of the machine, or of the first pass, which prepares libraries.
  bool was_disturbed() const { return graph(Keep::kCheap).seconds >= graph(Keep::kLean).seconds; }
  void take_quicker_times(const Sample& other) {
    seconds = std::min(seconds, other.seconds);
    for (std::size_t i = 0; i < graphs.size(); ++i)
      graphs[i].seconds = std::min(graphs[i].seconds, other.graphs[i].seconds);
  }
  void correct_times() {
    for (std::size_t i = graphs.size(); --i > 0;)
      graphs[i - 1].seconds = std::min(graphs[i - 1].seconds, graphs[i].seconds);
    for (Graph& graph : graphs)
      graph.seconds = std::min(graph.seconds, graphs.front().seconds + seconds);
  }
};

class SampledStep {
 public:
  // Two samples, and those of the fewest and of the most frames; all are the same one where a
  // single frame was all that fitted.
  SampledStep(const Sample& few, const Sample& many, const Sample& least, const Sample& most)
      : few_(few), many_(many), least_(least), most_(most) {}

  MeasuredStep step() const {
    MeasuredStep step;
    step.output = line(&Sample::output);
    step.gradient = line(&Sample::gradient);
    step.handed = line(&Sample::handed);
    step.forward = growth(few_.forward, many_.forward);
    step.seconds = seconds(most_.seconds, start(least_.seconds, most_.seconds));
    // All graphs have the same start, so that their times have the order of the most frames'
    // whatever the number; the least, since a slow moment of a single frame makes it larger.
    double before = most_.graph(Keep::kCheap).seconds;
    for (std::size_t i = 0; i < most_.graphs.size(); ++i)
      before = std::min(before, start(least_.graphs[i].seconds, most_.graphs[i].seconds));
    for (std::size_t i = 0; i < many_.graphs.size(); ++i) {
      const Sample::Graph &few = few_.graphs[i], &many = many_.graphs[i];
      step.graphs.push_back({through(double(few.saved), double(many.saved)),
                             growth(few.forward, many.forward), growth(few.backward, many.backward),
                             through(double(few.input_gradient), double(many.input_gradient)),
                             seconds(most_.graphs[i].seconds, before)});
    }
    return step;
  }

 private:
  Line through(double few, double many) const {
    if (many_.frames == few_.frames) return {0, many / double(many_.frames)};
    const double each = (many - few) / double(many_.frames - few_.frames);
    return {few - each * double(few_.frames), each};
  }
  Line line(std::int64_t Sample::*member) const {
    return through(double(few_.*member), double(many_.*member));
  }
  // Of what a chunk takes, this does not grow with its frames.
  double start(double one, double many) const {
    const auto n = double(most_.frames);
    return one < many ? std::max((n * one - many) / (n - 1), 0.0) : 0;
  }
  Line seconds(double many, double start) const {
    const double before = std::min(start, many);
    return {before, (many - before) / double(most_.frames)};
  }
  // Where the numbers of allocations differ, the peaks alone are compared.
  Growth growth(const Rises& few, const Rises& many) const {
    std::vector<Line> lines;
    if (few.size() == many.size()) {
      for (std::size_t i = 0; i < few.size(); ++i)
        lines.push_back(through(double(few[i]), double(many[i])));
    } else if (!few.empty() && !many.empty()) {
      lines.push_back(through(double(std::ranges::max(few)), double(std::ranges::max(many))));
    }
    return upper_hull(std::move(lines));
  }

  const Sample &few_, &many_, &least_, &most_;
};

// All blocks have the first one's weights.
class StandInWeights : public vit::WeightSource {
 public:
  explicit StandInWeights(const torch::Device& device) : device_(device) {}

  torch::Tensor take(const std::string& name, torch::IntArrayRef shape) override {
    std::string key = name;
    if (name.starts_with("blocks.")) key.erase(7, name.find('.', 7) - 7);
    const auto [place, is_new] = tensors_.try_emplace(key);
    if (is_new) place->second = torch::full(shape, 0.01, torch::device(device_));
    return place->second.detach();
  }

 private:
  torch::Device device_;
  std::map<std::string, torch::Tensor> tensors_;
};

class StepMeter {
 public:
  StepMeter(const ChainShape& shape, const torch::Device& device)
      : shape_(shape), device_(device), chain_(stand_in(shape, device)) {}

  const Chain& chain() const { return chain_; }

  // What enters the first trained step.
  Values input(std::int64_t frames) const {
    const auto [height, width] = shape_.image_size;
    if (chain_.first_trained() == 0 && shape_.cut == 0)
      return {torch::full({frames, height, width, 3}, 100,
                          torch::device(device_).dtype(torch::kUInt8))};
    Values values{tokens(frames)};
    const auto first =
        shape_.cut + static_cast<std::int64_t>(chain_.first_trained()) - (shape_.cut == 0 ? 1 : 0);
    const auto layers = vit::layers_of(shape_.features, shape_.architecture);
    const auto before =
        std::ranges::count_if(layers, [&](std::int64_t layer) { return layer < first; });
    if (before > 0)
      values.push_back(torch::zeros({frames, shape_.feature_count() / std::ssize(layers) * before},
                                    torch::device(device_)));
    return values;
  }

  // `values` become what the step gives.
  Sample sample(std::size_t step, Values& values) const {
    constexpr int kMost = 3;
    Values next;
    Sample found = run(step, values, next);
    for (int runs = 1; runs < kMost && found.was_disturbed(); ++runs) {
      next.clear();
      found.take_quicker_times(run(step, values, next));
    }
    found.correct_times();
    values = std::move(next);
    return found;
  }
  // Of a step whose kind is known.
  void pass(std::size_t step, Values& values) const {
    const torch::NoGradGuard no_grad;
    values = chain_.forward(step, values, pass_of(values));
  }

 private:
  static Chain stand_in(const ChainShape& shape, const torch::Device& device) {
    StandInWeights weights(device);
    return {make_trained_model(weights, shape, 0), shape.features, shape.cut,
            torch::full({3, 256}, 0.5, torch::device(device)), shape.drop_path};
  }
  torch::Tensor tokens(std::int64_t frames) const {
    return torch::randn({frames, shape_.tokens(), shape_.architecture.width},
                        torch::device(device_));
  }
  Pass pass_of(const Values& values) const {
    const auto frames = static_cast<std::size_t>(values[0].size(0));
    if (keys_.size() < frames) keys_.resize(frames);
    const bool drops = shape_.dropout || shape_.drop_path > 0;
    return {drops ? &dropout_ : nullptr, std::span(keys_).first(frames), shape_.precision};
  }

  // With a graph of each kind, forward and backward, and without one.
  Sample run(std::size_t step, const Values& values, Values& next) const {
    Sample found;
    found.frames = values[0].size(0);
    next = forward(step, values, found);
    for (const Keep keep : kKeeps) with_graph(step, values, keep, found);
    return found;
  }
  Values forward(std::size_t step, const Values& input, Sample& found) const {
    const torch::NoGradGuard no_grad;
    const DeviceTimer timer(device_);
    const MemoryTrace trace(device_, MemoryTrace::Rises::kKept);
    Values output = chain_.forward(step, input, pass_of(input));
    found.seconds = timer.seconds();
    found.output = trace.live();
    found.gradient = static_cast<std::int64_t>(output[0].nbytes());
    const bool hands_on = input.size() > 1 && output.back().is_alias_of(input.back());
    if (hands_on) found.handed = static_cast<std::int64_t>(input.back().nbytes());
    found.forward = trace.rises();
    return output;
  }

  // As a ChunkRun does it.
  void with_graph(std::size_t step, const Values& given, Keep keep, Sample& found) const {
    Sample::Graph& graph = found.graphs[static_cast<std::size_t>(keep)];
    const bool is_first = step == chain_.first_trained();
    const torch::AutoGradMode with_graph(true);
    Values input, wanted, outputs, gradients;
    for (const torch::Tensor& value : given) {
      input.push_back(value.detach());
      input.back().set_requires_grad(!is_first);
    }
    if (!is_first) wanted = input;
    const std::vector<torch::Tensor>& trained = chain_.trained(step);
    wanted.insert(wanted.end(), trained.begin(), trained.end());
    Values output;
    {
      const DeviceTimer timer(device_);
      const MemoryTrace trace(device_, MemoryTrace::Rises::kKept);
      output = chain_.forward(step, input, pass_of(input), keep);
      found.seconds = std::min(found.seconds, timer.seconds());
      graph.saved = trace.live() - found.output;
      graph.forward = trace.rises();
    }
    for (const torch::Tensor& value : output) {
      if (!value.requires_grad()) continue;
      outputs.push_back(value);
      gradients.push_back(torch::ones_like(value));
    }
    Values sums;
    for (const torch::Tensor& parameter : trained) sums.push_back(torch::zeros_like(parameter));
    const DeviceTimer timer(device_);
    const MemoryTrace trace(device_, MemoryTrace::Rises::kKept);
    const Values own = torch::autograd::grad(outputs, wanted, gradients, /*retain_graph=*/false,
                                             /*create_graph=*/false, /*allow_unused=*/true);
    const std::size_t inputs = own.size() - trained.size();
    for (std::size_t i = 0; i < trained.size(); ++i)
      if (own[inputs + i].defined()) sums[i].add_(own[inputs + i]);
    graph.seconds = timer.seconds();
    graph.backward = trace.rises();
    // That of features which are handed on is a view of theirs.
    if (inputs > 0) graph.input_gradient = static_cast<std::int64_t>(own[0].nbytes());
  }

  ChainShape shape_;
  torch::Device device_;
  Chain chain_;
  temporal::Dropout dropout_{shape_.dropout ? 0.1 : 0, 0, 0};
  mutable std::vector<std::uint64_t> keys_;
};

// Numbers of frames to measure. A GPU has so much to do with the most that its time grows with
// their number. From 513 tokens on oneDNN's buffers for products of bfloat16 stay as large as they
// are (measured, AVX-512); up to there chunks are measured whose frames are powers of two.
std::vector<std::int64_t> sample_sizes(const ChainShape& shape, const torch::Device& device) {
  const auto frames = [&](std::int64_t tokens) {
    return std::max<std::int64_t>(2, (tokens + shape.tokens() - 1) / shape.tokens());
  };
  if (device.is_cuda()) return {1, frames(8192), 2 * frames(8192)};
  if (shape.precision == torch::kFloat32) return {1, 2, 3};
  const std::int64_t enough = frames(513);
  std::vector<std::int64_t> sizes;
  for (std::int64_t size = 1; size < enough; size *= 2) sizes.push_back(size);
  sizes.insert(sizes.end(), {enough, enough + 1});
  return sizes;
}

using Samples = std::map<std::int64_t, Sample>;  // of a step, by frames

// Lines go through two neighbouring samples. A single frame's are others: its tensors need no
// copies where those of several do.
MeasuredRanges ranges_of(const Samples& of, bool one_apart) {
  MeasuredRanges ranges;
  const Sample &least = of.begin()->second, &most = of.rbegin()->second;
  if (of.size() == 1) ranges[1] = SampledStep(most, most, most, most).step();
  for (auto few = of.begin(), many = std::next(few); many != of.end(); ++few, ++many) {
    if (few == of.begin() && !one_apart && of.size() > 2) continue;
    ranges[few->first] = SampledStep(few->second, many->second, least, most).step();
  }
  return ranges;
}

// Half as many of each, at least one.
std::vector<std::int64_t> halved(const std::vector<std::int64_t>& sizes) {
  std::vector<std::int64_t> found;
  for (const std::int64_t size : sizes) found.push_back((size + 1) / 2);
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

Json to_json(const Line& line) {
  return Json::array({line.base, line.each});
}
Line line_of(const Json& json) {
  return {json.at(0).get<double>(), json.at(1).get<double>()};
}
Json to_json(const Growth& lines) {
  Json json = Json::array();
  for (const Line& line : lines) json.push_back(to_json(line));
  return json;
}
Json to_json(const MeasuredStep& step) {
  Json graphs = Json::object();
  for (const Keep keep : kKeeps) {
    const MeasuredGraph& graph = step.graphs[static_cast<std::size_t>(keep)];
    graphs[word_for(kKeepWords, keep)] = {{"saved", to_json(graph.saved)},
                                          {"forward", to_json(graph.forward)},
                                          {"backward", to_json(graph.backward)},
                                          {"input_gradient", to_json(graph.input_gradient)},
                                          {"seconds", to_json(graph.seconds)}};
  }
  return {{"output", to_json(step.output)},   {"gradient", to_json(step.gradient)},
          {"handed", to_json(step.handed)},   {"forward", to_json(step.forward)},
          {"seconds", to_json(step.seconds)}, {"graphs", graphs}};
}
Growth growth_of(const Json& json) {
  Growth lines;
  for (const Json& line : json) lines.push_back(line_of(line));
  return lines;
}

MeasuredStep step_of(const Json& json) {
  MeasuredStep step;
  step.output = line_of(json.at("output"));
  step.gradient = line_of(json.at("gradient"));
  step.handed = line_of(json.at("handed"));
  step.forward = growth_of(json.at("forward"));
  step.seconds = line_of(json.at("seconds"));
  for (const Keep keep : kKeeps) {
    const Json& graph = json.at("graphs").at(word_for(kKeepWords, keep));
    step.graphs.push_back({line_of(graph.at("saved")), growth_of(graph.at("forward")),
                           growth_of(graph.at("backward")), line_of(graph.at("input_gradient")),
                           line_of(graph.at("seconds"))});
  }
  return step;
}

ChainCosts read_costs(const Json& json) {
  ChainCosts costs;
  costs.shape = json.at("shape").get<std::string>();
  costs.names = json.at("names").get<std::vector<std::string>>();
  costs.kinds = json.at("kinds").get<std::vector<std::string>>();
  costs.input = json.at("input").get<std::uint64_t>();
  costs.fixed = json.at("fixed").get<std::uint64_t>();
  costs.features = json.at("features").get<std::uint64_t>();
  for (const auto& [kind, ranges] : json.at("steps").items())
    for (const Json& range : ranges)
      costs.steps[kind][range.at("from").get<std::int64_t>()] = step_of(range.at("step"));
  for (const std::string& kind : costs.kinds) json.at("steps").at(kind);
  return costs;
}

}  // namespace

StepCost MeasuredStep::at(std::int64_t frames) const {
  StepCost cost;
  cost.output = bytes(output.at(frames));
  cost.gradient = bytes(gradient.at(frames));
  cost.handed = bytes(handed.at(frames));
  cost.forward_extra = bytes(highest(forward, frames) - output.at(frames));
  cost.forward = seconds.at(frames);
  for (std::size_t i = 0; i < graphs.size(); ++i) {
    const MeasuredGraph& graph = graphs[i];
    cost.graphs[i] = {
        bytes(graph.saved.at(frames)),
        bytes(highest(graph.forward, frames) - graph.saved.at(frames) - output.at(frames)),
        bytes(highest(graph.backward, frames) - graph.input_gradient.at(frames)),
        graph.seconds.at(frames)};
  }
  return cost;
}

ChunkCost ChainCosts::chunk(std::int64_t frames) const {
  ChunkCost cost;
  cost.input = static_cast<std::uint64_t>(frames) * input;
  for (const std::string& kind : kinds) {
    const MeasuredRanges& ranges = steps.at(kind);
    const auto next = ranges.upper_bound(frames);
    const auto own = next == ranges.begin() ? next : std::prev(next);
    cost.chain.push_back(own->second.at(frames));
  }
  return cost;
}

namespace {

std::string text_of(const ChainShape& shape, const torch::Device& device) {
  return concat(shape.tokens(), " tokens of ", shape.architecture.width, " in ",
                c10::toString(shape.precision), shape.dropout ? " with dropout" : "", ", on ",
                device.is_cuda() ? "a GPU" : "the CPU");
}

// What the costs are of.
ChainCosts named_costs(const StepMeter& meter, const std::string& shape) {
  const Chain& chain = meter.chain();
  const std::size_t first = chain.first_trained();
  ChainCosts costs;
  costs.shape = shape;
  for (std::size_t step = first; step < chain.size(); ++step) {
    costs.names.push_back(chain.name(step));
    costs.kinds.push_back(concat(chain.kind(step), step == first ? ", the first" : ""));
  }
  return costs;
}

// Runs, in order, the first step of each of these kinds.
std::map<std::string, Samples> samples_of(const StepMeter& meter,
                                          const std::vector<std::string>& kinds,
                                          const std::set<std::string>& wanted,
                                          const std::vector<std::int64_t>& sizes) {
  std::map<std::string, Samples> samples;
  for (const std::int64_t frames : sizes | std::views::reverse) {  // the largest takes all pages
    Values values = meter.input(frames);
    std::set<std::string> left = wanted;
    for (std::size_t i = 0; !left.empty(); ++i) {
      const std::size_t step = meter.chain().first_trained() + i;
      if (left.erase(kinds[i]) > 0)
        samples[kinds[i]][frames] = meter.sample(step, values);
      else if (meter.chain().changes_shape(step))
        meter.pass(step, values);
    }
  }
  return samples;
}

}  // namespace

ChainCosts measure_costs(const ChainShape& shape, const torch::Device& device,
                         MeasuredSteps& known) {
  const StepMeter meter(shape, device);
  ChainCosts costs = named_costs(meter, text_of(shape, device));
  std::set<std::string> unknown;
  for (const std::string& kind : costs.kinds)
    if (!known.contains(kind)) unknown.insert(kind);
  std::map<std::string, Samples> samples;
  for (auto sizes = sample_sizes(shape, device); samples.size() < unknown.size();) {
    try {
      samples = samples_of(meter, costs.kinds, unknown, sizes);
    } catch (const c10::OutOfMemoryError&) {
      if (sizes.back() == 1) throw;
      sizes = halved(sizes);
    }
  }
  const bool one_apart = device.is_cpu() && shape.precision != torch::kFloat32;
  for (const auto& [kind, of] : samples) known[kind] = ranges_of(of, one_apart);
  for (const std::string& kind : costs.kinds) costs.steps[kind] = known.at(kind);
  const Values frame = meter.input(1);
  std::uint64_t entering = 0;
  for (const torch::Tensor& value : frame) entering += value.nbytes();
  const bool by_chunk = meter.chain().first_trained() == 0;
  // The CPU takes pixels as the cache gives them.
  const bool as_they_are = by_chunk && shape.cut == 0 && device.is_cpu();
  if (!as_they_are) (by_chunk ? costs.input : costs.fixed) = entering;
  costs.features = static_cast<std::uint64_t>(4 * shape.feature_count());
  return costs;
}

ChainCosts measure_costs(const ChainShape& shape, const torch::Device& device) {
  MeasuredSteps known;
  return measure_costs(shape, device, known);
}

bool are_of(const ChainCosts& costs, const ChainShape& shape, const torch::Device& device) {
  const ChainCosts own = named_costs(StepMeter(shape, device), text_of(shape, device));
  return costs.shape == own.shape && costs.names == own.names && costs.kinds == own.kinds;
}

Json to_json(const ChainCosts& costs) {
  Json steps = Json::object();
  for (const auto& [kind, ranges] : costs.steps)
    for (const auto& [frames, step] : ranges)
      steps[kind].push_back({{"from", frames}, {"step", to_json(step)}});
  return {
      {"shape", costs.shape}, {"names", costs.names}, {"kinds", costs.kinds},      {"steps", steps},
      {"input", costs.input}, {"fixed", costs.fixed}, {"features", costs.features}};
}

ChainCosts costs_from_json(const Json& json) {
  try {
    return read_costs(json);
  } catch (const Json::exception& error) {
    throw DataError(concat("the run's configuration does not say what steps of its ViT take: ",
                           error.what(), "; start again with --overwrite"));
  }
}

std::shared_ptr<ChunkUses> chunk_uses(std::shared_ptr<const ChainCosts> costs) {
  return std::make_shared<ChunkUses>(
      [costs = std::move(costs)](std::int64_t frames) { return costs->chunk(frames); });
}

StepTask step_task(const ChainCosts& costs, std::shared_ptr<ChunkUses> chunks,
                   std::int64_t frames) {
  StepTask task;
  task.frames = frames;
  task.feature_bytes = costs.features;
  task.fixed = costs.fixed;
  task.chunks = std::move(chunks);
  return task;
}

}  // namespace coldframe::tune

#include "train_temporal/plan/measure.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include "common/numbers/quantile.h"
#include "common/text/text.h"
#include "common/torch/memory.h"
#include "extract/vit/weights.h"
#include "train_temporal/fit/tune/chain.h"
#include "train_temporal/fit/tune/chunk_run.h"
#include "train_temporal/fit/tune/trained_parameters.h"
#include "train_temporal/fit/tune/tuned_vit.h"

namespace coldframe::plan {

namespace {

using tune::ChainShape;
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
      : device_(device), before_(start_counting(device)), timer_(device) {}
  std::uint64_t peak() const { return peak_device_memory(device_) - before_; }
  double seconds() const { return timer_.seconds(); }

 private:
  static std::uint64_t start_counting(const torch::Device& device) {
    reset_device_memory_peak(device);
    return live_device_memory(device);
  }

  torch::Device device_;
  std::uint64_t before_;
  DeviceTimer timer_;
};

}  // namespace

class MeasuredVit::Parts {
 public:
  Parts(const ChainShape& shape, std::shared_ptr<const tune::ChainCosts> costs,
        const torch::Device& device)
      : shape_(shape),
        costs_(std::move(costs)),
        device_(device),
        source_(recipe_of(shape), shape.cut, {}),
        model_(tune::make_tuned_model(source_, options(), 0, device)),
        chain_(model_, source_.features(), shape.cut, source_.levels().to(device)),
        first_(chain_.first_trained()) {}

  tune::Use follow(const tune::Schedule& schedule, std::int64_t frames) {
    for (std::size_t step = 0; step < chain_.size(); ++step)
      for (const torch::Tensor& parameter : chain_.trained(step))
        parameter.mutable_grad() = torch::zeros_like(parameter);
    torch::Tensor input;
    if (costs_->input == 0) input = first_input(frames);
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
    options.precision = shape_.precision;
    options.costs = costs_;
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
    found.precision = shape_.precision;
    return found;
  }
  ChainShape shape_;
  std::shared_ptr<const tune::ChainCosts> costs_;
  torch::Device device_;
  tune::TunedSource source_;
  vit::VisionTransformer model_;
  tune::Chain chain_;
  std::size_t first_;  // trained step
};

MeasuredVit::MeasuredVit(const ChainShape& shape, std::shared_ptr<const tune::ChainCosts> costs,
                         const torch::Device& device)
    : parts_(std::make_unique<Parts>(shape, std::move(costs), device)) {}
MeasuredVit::~MeasuredVit() = default;

tune::Use MeasuredVit::follow(const tune::Schedule& schedule, std::int64_t frames) {
  return parts_->follow(schedule, frames);
}

tune::Use MeasuredVit::step(std::uint64_t budget, std::int64_t exams, std::int64_t frames) {
  return parts_->step(budget, exams, frames);
}

namespace {

using Costs = std::shared_ptr<const tune::ChainCosts>;

// A pass or a step that runs in every round.
struct Trial {
  std::string name;
  tune::Use predicted;
  std::function<tune::Use()> run;
  std::vector<double> seconds = {};
  std::uint64_t peak = 0;
};

constexpr tune::Strategy kPasses[] = {tune::Strategy::kNone, tune::Strategy::kCheap};

// A chunk of frames forward and backward, each step once.
void add_schedules(std::vector<Trial>& trials, MeasuredVit& vit, const tune::ChunkCost& cost,
                   std::int64_t frames) {
  for (const tune::Strategy strategy : kPasses) {
    const tune::Schedule schedule = tune::make_schedule(strategy, cost.chain, cost.input);
    trials.push_back({word_for(tune::kStrategies, strategy),
                      tune::simulate(schedule, cost.chain, cost.input),
                      [=, &vit] { return vit.follow(schedule, frames); }});
  }
}

struct Budget {
  std::string name;
  std::uint64_t bytes = 0;
};

std::vector<Budget> shares_of(std::uint64_t whole) {
  std::vector<Budget> found;
  for (const std::uint64_t share : kShares)
    found.push_back({concat("in 1/", share), whole / share});
  return found;
}

// So many, evenly spaced, from the smallest one that a step of `one_exam` fits into to all of
// `whole`.
std::vector<Budget> budgets_between(const tune::StepTask& one_exam, std::uint64_t whole,
                                    std::int64_t count) {
  const std::uint64_t least = tune::rank_schedules(one_exam, 1).front().use.peak;
  std::vector<Budget> found;
  whole = std::max(whole, least);
  for (std::int64_t number = 0; number < count; ++number) {
    const double part = count > 1 ? double(number) / double(count - 1) : 0;
    const auto bytes = least + static_cast<std::uint64_t>(part * double(whole - least));
    found.push_back({concat("in ", human_bytes(bytes)), bytes});
  }
  return found;
}

// Whole steps within budgets; the exams may go in turn.
void add_budgets(std::vector<Trial>& trials, MeasuredVit& vit, const Costs& costs,
                 std::int64_t exams, std::int64_t frames, std::int64_t count) {
  const auto chunks = tune::chunk_uses(costs);
  const auto task_of = [&](std::int64_t some) {
    return tune::step_task(*costs, chunks, some * frames);
  };
  const std::uint64_t whole = trials.front().predicted.peak;
  for (const auto& [name, budget] :
       count > 0 ? budgets_between(task_of(1), whole, count) : shares_of(whole)) {
    const std::int64_t at_once =
        tune::exams_that_fit(exams, budget, tune::Strategy::kCheap, task_of);
    const tune::RankedSchedule best = tune::rank_schedules(task_of(at_once), budget).front();
    if (!best.fits) continue;
    const std::string in_turn =
        at_once < exams
            ? concat(", ", plural(static_cast<std::size_t>(at_once), "exam"), " at a time")
            : "";
    trials.push_back({concat(name, ", by ", to_string(best.way), in_turn),
                      {best.use.peak, best.use.seconds * double(exams) / double(at_once)},
                      [=, &vit, budget = budget] { return vit.step(budget, exams, frames); }});
  }
}

}  // namespace

Measured measure(const Query& query, const Trained& trained, const Steps& steps) {
  const auto [exams, frames, rounds, budgets] = steps;
  const Costs costs = query.machine->costs(query, trained);
  MeasuredVit vit(shape_of(query, trained), costs, query.machine->device());
  std::vector<Trial> trials;
  add_schedules(trials, vit, costs->chunk(exams * frames), exams * frames);
  const std::int64_t apart = query.coupled ? 1 : exams;
  add_budgets(trials, vit, costs, apart, exams * frames / apart, budgets);
  // The system hands out the pages that all later steps use again.
  for (const std::size_t largest : {std::size_t{0}, std::size(kPasses)})
    if (largest < trials.size()) trials[largest].run();
  for (std::int64_t round = 0; round < rounds; ++round) {
    for (Trial& trial : trials) {
      const tune::Use use = trial.run();
      trial.seconds.push_back(use.seconds);
      trial.peak = std::max(trial.peak, use.peak);
    }
  }
  Measured found{exams, frames, {}};
  for (Trial& trial : trials)
    found.peaks.push_back({trial.name, trial.predicted.peak, trial.peak, trial.predicted.seconds,
                           median(std::move(trial.seconds))});
  return found;
}

}  // namespace coldframe::plan

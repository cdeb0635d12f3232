#include "train_temporal/plan/measure.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "common/numbers/quantile.h"
#include "common/text/text.h"
#include "common/torch/cpu_memory.h"
#include "train_temporal/plan/measured_vit.h"

namespace coldframe::plan {
namespace {

// Times are medians over so many rounds, each of which runs everything once, so that the machine's
// moods fall on all alike.
constexpr int kRounds = 3;

std::vector<tune::StepCost> median_steps(const std::vector<std::vector<tune::StepCost>>& rounds) {
  std::vector<tune::StepCost> steps = rounds.front();
  for (std::size_t i = 0; i < steps.size(); ++i) {
    std::vector<double> forward, backward;
    for (const std::vector<tune::StepCost>& round : rounds) {
      forward.push_back(round[i].forward);
      backward.push_back(round[i].backward);
    }
    steps[i].forward = median(std::move(forward));
    steps[i].backward = median(std::move(backward));
  }
  return steps;
}

double seconds_of(const std::vector<tune::StepCost>& steps) {
  double seconds = 0;
  for (const tune::StepCost& step : steps) seconds += step.forward + step.backward;
  return seconds;
}

// A pass or a step that runs in every round.
struct Trial {
  using Steps = std::vector<tune::StepCost>;
  std::string name;
  std::function<tune::Use()> run;
  std::function<tune::Use(const Steps& timed)> predict;
  std::vector<double> seconds = {};
  std::uint64_t peak = 0;
};

// Every strategy, a chunk of frames forward and backward.
void add_schedules(std::vector<Trial>& trials, MeasuredVit& vit, const tune::ChunkCost& cost,
                   const Trial::Steps& timed, std::int64_t frames) {
  const std::uint64_t least = tune::least_memory(cost.chain, cost.input);
  for (const auto& [word, strategy] : tune::kStrategies) {
    const tune::Schedule schedule = tune::make_schedule(strategy, timed, cost.input, least);
    trials.push_back({word, [=, &vit] { return vit.follow(schedule, frames); },
                      [=, input = cost.input](const Trial::Steps& steps) {
                        return tune::simulate(schedule, steps, input);
                      }});
  }
}

// Whole steps in a half and a quarter of what a chunk takes that keeps everything.
void add_budgets(std::vector<Trial>& trials, MeasuredVit& vit, const tune::ChunkCost& cost,
                 const tune::ChainShape& shape, std::int64_t frames) {
  const tune::StepTask task = tune::step_task(shape, frames);
  const std::uint64_t whole = trials.front().predict(cost.chain).peak;
  for (const std::uint64_t share : {2, 4}) {
    const std::uint64_t budget = whole / share;
    const std::vector<tune::ConsideredWay> considered = tune::consider_ways(task, budget);
    if (considered.empty() || !considered.front().fits) continue;
    trials.push_back(
        {concat("a step in ", human_bytes(budget)), [=, &vit] { return vit.step(budget, frames); },
         [use = considered.front().use, work = seconds_of(cost.chain)](const Trial::Steps& steps) {
           return tune::Use{use.peak, use.seconds * seconds_of(steps) / work};
         }});
  }
}

// The predicted bytes of steps, with the seconds that they took.
Trial::Steps timed_steps(Trial::Steps predicted, const Trial::Steps& measured) {
  for (std::size_t i = 0; i < predicted.size(); ++i) {
    predicted[i].forward = measured[i].forward;
    predicted[i].backward = measured[i].backward;
  }
  return predicted;
}

}  // namespace

Measured measure(const Query& asked, const Trained& trained, std::int64_t frames) {
  Query query = asked;
  query.cuda = false;
  count_cpu_memory();
  keep_freed_memory();
  const tune::ChainShape shape = shape_of(query, trained);
  const tune::ChunkCost cost = tune::chunk_cost(shape, frames);
  MeasuredVit vit(shape, torch::kCPU);
  vit.steps(1);  // warms up
  std::vector<Trial::Steps> steps{vit.steps(frames)};
  std::vector<Trial> trials;
  add_schedules(trials, vit, cost, timed_steps(cost.chain, steps.front()), frames);
  add_budgets(trials, vit, cost, shape, frames);
  for (int round = 0; round < kRounds; ++round) {
    for (Trial& trial : trials) {
      const tune::Use use = trial.run();
      trial.seconds.push_back(use.seconds);
      trial.peak = std::max(trial.peak, use.peak);
    }
    steps.push_back(vit.steps(frames));
  }
  Measured found{frames, tune::step_names(shape), cost.chain, median_steps(steps), {}, 0};
  const Trial::Steps timed = timed_steps(cost.chain, found.measured);
  found.seconds_per_work = seconds_of(timed) / seconds_of(cost.chain);
  for (Trial& trial : trials) {
    const tune::Use predicted = trial.predict(timed);
    found.peaks.push_back({trial.name, predicted.peak, trial.peak, predicted.seconds,
                           median(std::move(trial.seconds))});
  }
  return found;
}

}  // namespace coldframe::plan

#include "train_temporal/plan/measure.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include "common/numbers/quantile.h"
#include "common/text/text.h"
#include "common/torch/device.h"
#include "train_temporal/plan/measured_vit.h"

namespace coldframe::plan {
namespace {

using Steps = std::vector<tune::StepCost>;

// The predicted bytes of steps, with the medians of what they took in each round.
Steps timed_steps(Steps steps, const std::vector<Steps>& rounds) {
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const auto of_rounds = [&](const auto& seconds) {
      std::vector<double> all;
      for (const Steps& round : rounds) all.push_back(seconds(round[i]));
      return median(std::move(all));
    };
    steps[i].forward = of_rounds([](const tune::StepCost& step) { return step.forward; });
    for (const tune::Keep keep : steps[i].keeps())
      steps[i].graph(keep).backward =
          of_rounds([&](const tune::StepCost& step) { return step.graph(keep).backward; });
  }
  return steps;
}

// Of the strategy that train takes where memory is no matter.
double seconds_of(const Steps& steps) {
  double seconds = 0;
  for (const tune::StepCost& step : steps)
    seconds += step.forward + step.graph(tune::Keep::kCheap).backward;
  return seconds;
}

// A pass or a step that runs in every round.
struct Trial {
  std::string name;
  std::function<tune::Use()> run;
  std::function<tune::Use(const Steps& timed)> predict;
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
                      [=, &vit] { return vit.follow(schedule, frames); },
                      [=, input = cost.input](const Steps& steps) {
                        return tune::simulate(schedule, steps, input);
                      }});
  }
}

// Whole steps in parts of what a chunk takes that keeps everything; the exams may go in turn.
void add_budgets(std::vector<Trial>& trials, MeasuredVit& vit, const tune::ChunkCost& cost,
                 const tune::ChainShape& shape, std::int64_t exams, std::int64_t frames) {
  const tune::StepTask all = tune::step_task(shape, exams * frames);
  const auto task_of = [&](std::int64_t some) {
    tune::StepTask task = all;
    task.frames = some * frames;
    return task;
  };
  const std::uint64_t whole = trials.front().predict(cost.chain).peak;
  for (const std::uint64_t share : kShares) {
    const std::uint64_t budget = whole / share;
    const std::int64_t at_once =
        tune::exams_that_fit(exams, budget, tune::Strategy::kCheap, task_of);
    const tune::StepTask task = task_of(at_once);
    const tune::ConsideredWay best = tune::consider_ways(task, budget).front();
    if (!best.fits) continue;
    const tune::ChunkCost& part = task.chunks->cost(task.frames);
    const auto predict = [=, chain = part.chain, input = part.input](const Steps& steps) {
      // Times of parts of the frames are in proportion, and the parts make up all of them.
      if (best.way.chunk == at_once * frames && best.way.kept == 1) {
        const auto schedule = tune::make_schedule(best.way.strategy, chain, input, best.way.budget);
        return tune::Use{best.use.peak, tune::simulate(schedule, steps, input).seconds};
      }
      return tune::Use{best.use.peak, best.use.seconds * seconds_of(steps) / seconds_of(chain)};
    };
    const std::string in_turn =
        at_once < exams
            ? concat(", ", plural(static_cast<std::size_t>(at_once), "exam"), " at a time")
            : "";
    trials.push_back({concat("in 1/", share, ", by ", to_string(best.way), in_turn),
                      [=, &vit] { return vit.step(budget, exams, frames); }, predict});
  }
}

}  // namespace

Measured measure(const Query& asked, const Trained& trained, const torch::Device& device,
                 std::int64_t exams, std::int64_t frames, std::int64_t rounds) {
  Query query = asked;
  query.cuda = device.is_cuda();
  const tune::ChainShape shape = shape_of(query, trained);
  const tune::ChunkCost cost = tune::chunk_cost(shape, exams * frames);
  MeasuredVit vit(shape, device);
  std::vector<Trial> trials;
  add_schedules(trials, vit, cost, exams * frames);
  const std::int64_t apart = query.coupled ? 1 : exams;
  add_budgets(trials, vit, cost, shape, apart, exams * frames / apart);
  // Each layer, the largest pass and the largest step run once untimed: the system hands out the
  // pages that all later ones use again.
  vit.steps(exams * frames);
  for (const std::size_t largest : {std::size_t{0}, std::size(kPasses)})
    if (largest < trials.size()) trials[largest].run();
  std::vector<Steps> steps;
  for (std::int64_t round = 0; round < rounds; ++round) {
    for (Trial& trial : trials) {
      const tune::Use use = trial.run();
      trial.seconds.push_back(use.seconds);
      trial.peak = std::max(trial.peak, use.peak);
    }
    steps.push_back(vit.steps(exams * frames));
  }
  Measured found{device_name(device),
                 query.cuda,
                 exams,
                 frames,
                 tune::step_names(shape),
                 cost.chain,
                 timed_steps(steps.front(), steps),
                 {},
                 0};
  const Steps timed = timed_steps(cost.chain, steps);
  found.seconds_per_work = seconds_of(timed) / seconds_of(cost.chain);
  for (Trial& trial : trials) {
    const tune::Use predicted = trial.predict(timed);
    found.peaks.push_back({trial.name, predicted.peak, trial.peak, predicted.seconds,
                           median(std::move(trial.seconds))});
  }
  return found;
}

}  // namespace coldframe::plan

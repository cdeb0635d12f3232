#include "train_temporal/plan/measure.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include "common/numbers/quantile.h"
#include "common/text/text.h"
#include "train_temporal/plan/measured_vit.h"

namespace coldframe::plan {
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

// Whole steps in parts of what a chunk takes that keeps everything; the exams may go in turn.
void add_budgets(std::vector<Trial>& trials, MeasuredVit& vit, const Costs& costs,
                 std::int64_t exams, std::int64_t frames) {
  const auto chunks = tune::chunk_uses(costs);
  const auto task_of = [&](std::int64_t some) {
    return tune::step_task(*costs, chunks, some * frames);
  };
  const std::uint64_t whole = trials.front().predicted.peak;
  for (const std::uint64_t share : kShares) {
    const std::uint64_t budget = whole / share;
    const std::int64_t at_once =
        tune::exams_that_fit(exams, budget, tune::Strategy::kCheap, task_of);
    const tune::ConsideredWay best = tune::consider_ways(task_of(at_once), budget).front();
    if (!best.fits) continue;
    const std::string in_turn =
        at_once < exams
            ? concat(", ", plural(static_cast<std::size_t>(at_once), "exam"), " at a time")
            : "";
    trials.push_back({concat("in 1/", share, ", by ", to_string(best.way), in_turn),
                      {best.use.peak, best.use.seconds * double(exams) / double(at_once)},
                      [=, &vit] { return vit.step(budget, exams, frames); }});
  }
}

}  // namespace

Measured measure(const Query& query, const Trained& trained, std::int64_t exams,
                 std::int64_t frames, std::int64_t rounds) {
  const Costs costs = query.machine->costs(query, trained);
  MeasuredVit vit(shape_of(query, trained), costs, query.machine->device());
  std::vector<Trial> trials;
  add_schedules(trials, vit, costs->chunk(exams * frames), exams * frames);
  const std::int64_t apart = query.coupled ? 1 : exams;
  add_budgets(trials, vit, costs, apart, exams * frames / apart);
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

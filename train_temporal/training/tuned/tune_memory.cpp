#include "train_temporal/training/tuned/tune_memory.h"

#include <algorithm>
#include <initializer_list>
#include <numeric>
#include <vector>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "train_temporal/data/dataset.h"
#include "train_temporal/training/memory_plan.h"
#include "train_temporal/training/tuned/tuned_features.h"
#include "train_temporal/tune/trained_parameters.h"

namespace coldframe::temporal {
namespace {

constexpr std::uint64_t kCopies = 6;        // parameters, gradients, moments, decay, the best
constexpr std::uint64_t kStreamGroups = 4;  // of a FeatureStream that reads ahead
constexpr std::uint64_t kMostForRows = 4;   // the part of a budget that reading ahead may take
constexpr std::uint64_t kMostForModel = 4;  // the part of a step's that the temporal model may take

std::uint64_t trained_values(const FitTask& task) {
  return static_cast<std::uint64_t>(tune::trained_values(*task.tuned, task.options.tune.vit));
}

// Frames of the `exams` largest exams of these parts, the largest first. An exam counts for
// `at_most` frames; 0: for all that it has.
std::vector<std::int64_t> most_frames(const FitTask& task,
                                      std::initializer_list<const std::vector<std::size_t>*> parts,
                                      std::size_t exams, std::int64_t at_most) {
  std::vector<std::int64_t> frames;
  for (const auto* part : parts) {
    for (std::size_t exam : *part) {
      const std::int64_t all = task.dataset.sequences[exam].frames();
      frames.push_back(at_most > 0 ? std::min(all, at_most) : all);
    }
  }
  std::sort(frames.rbegin(), frames.rend());
  frames.resize(std::min(frames.size(), exams));
  return frames;
}

std::int64_t sum_of(const std::vector<std::int64_t>& frames) {
  return std::accumulate(frames.begin(), frames.end(), std::int64_t{0});
}

tune::TuneOptions step_options(const FitTask& task, const TuneMemory& memory) {
  tune::TuneOptions options = vit_options(task.options);
  options.budget = memory.step;
  options.head = predict_head(task, memory.micro_batches);
  return options;
}

}  // namespace

std::uint64_t step_budget(const FitTask& task, std::uint64_t taken) {
  const std::uint64_t budget = task.options.tune.budget;
  if (budget == 0) return task.options.tune.vit.budget;
  if (taken < budget) return budget - taken;
  throw SystemError(concat(
      "a tuned fit takes ", human_bytes(taken), " for what it trains and for the cut of ",
      plural(std::max(task.options.batch, kTunedExamsAtOnce), "exam"),
      " before its ViT computes anything, and ", human_bytes(budget),
      " are there for it; lower --batch, --tune-blocks or --jobs, or raise --memory-budget"));
}

TuneMemory plan_tuning(const FitTask& task) {
  TuneMemory memory;
  const tune::TuneOptions& vit = task.options.tune.vit;
  memory.parameters = kCopies * sizeof(float) * trained_values(task);
  const Split& split = task.split;
  const auto step =
      most_frames(task, {&split.train}, task.options.batch, task.options.train_frames);
  memory.frames = sum_of(step);
  memory.exam = step.empty() ? 0 : step.front();
  const std::uint64_t budget = task.options.tune.budget > 0 ? task.options.tune.budget : vit.budget;
  memory.ahead = budget / kMostForRows;
  const auto at_hand = sum_of(most_frames(task, {&split.train, &split.validation, &split.test},
                                          std::max(task.options.batch, kTunedExamsAtOnce), 0));
  const std::uint64_t group =
      static_cast<std::uint64_t>(at_hand) * row_format(*task.dataset.cache, RowKind::kCut).bytes();
  const bool reads_ahead = budget == 0 || kStreamGroups * group <= memory.ahead;
  const bool chooses_frames = task.options.train_frames > 0 || task.options.mixup > 0;
  memory.rows = group * ((reads_ahead ? kStreamGroups : 1) + (chooses_frames ? 1 : 0));
  memory.micro_batches = first_micro_batches(task);
  memory.step = step_budget(
      task, memory.parameters + memory.rows + predict_model(task, memory.micro_batches).fixed);
  if (memory.step > 0)
    memory.micro_batches =
        micro_batches_that_fit(task, memory.micro_batches, memory.step / kMostForModel);
  return memory;
}

tune::TuneOptions vit_options(const FitOptions& fit) {
  tune::TuneOptions options = fit.tune.vit;
  options.precision = fit.precision;
  options.dropout = fit.tune.dropout > 0;
  return options;
}

std::unique_ptr<tune::TunedVit> make_vit(const FitTask& task, const TuneMemory& memory) {
  return std::make_unique<tune::TunedVit>(*task.tuned, step_options(task, memory), task.seed,
                                          task.dataset.device);
}

bool exams_go_in_turn(const FitOptions& options, const Objective& objective) {
  return options.mixup == 0 && !objective.couples();
}

std::uint64_t predict_vit_step(const FitTask& task) {
  if (task.tuned == nullptr) return 0;
  const TuneMemory memory = plan_tuning(task);
  if (memory.frames == 0) return 0;
  const Objective objective(task.targets, task.split.train, task.options.objective);
  const bool in_turn = exams_go_in_turn(task.options, objective);
  const std::uint64_t training =
      tune::predicted_bytes(step_options(task, memory), memory.frames, in_turn ? memory.exam : 0);
  return std::max(training, predict_model(task, memory.micro_batches).training);  // or evaluation
}

}  // namespace coldframe::temporal

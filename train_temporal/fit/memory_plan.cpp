#include "train_temporal/fit/memory_plan.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <numeric>
#include <vector>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "common/torch/memory.h"
#include "train_temporal/data/dataset.h"
#include "train_temporal/fit/tune/trained_parameters.h"
#include "train_temporal/fit/tuned_features.h"
#include "train_temporal/models/device_draws.h"
#include "train_temporal/models/operations.h"

namespace coldframe::temporal {

namespace {

constexpr std::uint64_t kCopies = 6;        // parameters, gradients, moments, decay, the best
constexpr std::uint64_t kStreamGroups = 4;  // of a FeatureStream that reads ahead
constexpr std::uint64_t kMaxForRows = 4;    // 1 / the fraction of a budget for prefetching
constexpr std::uint64_t kMaxForModel = 4;   // 1 / the temporal model's fraction of a step's budget

std::uint64_t trained_values(const FitTask& task) {
  return static_cast<std::uint64_t>(tune::trained_values(*task.tuned, task.options.tune.vit));
}

// Frames of the `exams` largest exams of these parts, the largest first. An exam counts for
// `at_most` frames; 0: for all that it has.
std::vector<std::int64_t> max_frames(const FitTask& task,
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
  const auto step = max_frames(task, {&split.train}, task.options.batch, task.options.train_frames);
  memory.frames = sum_of(step);
  memory.exam = step.empty() ? 0 : step.front();
  const std::uint64_t budget = task.options.tune.budget > 0 ? task.options.tune.budget : vit.budget;
  memory.ahead = budget / kMaxForRows;
  const auto at_hand = sum_of(max_frames(task, {&split.train, &split.validation, &split.test},
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
        micro_batches_that_fit(task, memory.micro_batches, memory.step / kMaxForModel);
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

namespace {

// Predictions, features included, were 0.92 to 1.10 of what 60 fits took (gru, lstm, attention and
// mean, H 64 and 256, 1 to 3 layers, one and both ways, log, decay and time2vec; 5 × 64, 12 × 384
// and 64 × 1280 frames × D; batch 32); features not included, 0.97 to 1.12 of 88 fits of
// transformer and tcn (1, 2 and 4 layers, of those and 24 × 96, even and uneven lengths).
constexpr double kFloat = sizeof(float);
constexpr double kErrs = 1.1;  // how far a prediction may be above what is needed

struct Frames {
  double mean = 0, deviation = 0, most = 0;

  // Frames of `exams` exams together, as a training run will meet them.
  double of(double exams) const {
    return std::min(exams * most, exams * mean + 3 * std::sqrt(exams) * deviation);
  }
};

Frames frames_of(const Dataset& dataset, const std::vector<std::size_t>& exams,
                 std::int64_t at_most) {
  Frames frames;
  double squares = 0;
  for (std::size_t exam : exams) {
    auto count = static_cast<double>(dataset.sequences[exam].frames());
    if (at_most > 0) count = std::min(count, static_cast<double>(at_most));
    frames.mean += count;
    squares += count * count;
    frames.most = std::max(frames.most, count);
  }
  const auto n = static_cast<double>(std::max<std::size_t>(exams.size(), 1));
  frames.mean /= n;
  frames.deviation = std::sqrt(std::max(0.0, squares / n - frames.mean * frames.mean));
  return frames;
}

bool is_fused(const FitTask& task) {
  return task.tuned == nullptr && task.config.has_kernels() && task.dataset.device.is_cpu() &&
         task.options.precision == torch::kFloat32;
}

// Of a recorded step: exams are padded to the longest at most, random bits are drawn at once, and
// the memory stays the graph's.
double recorded_values(const StepValues& values, const FitTask& task, const Frames& frames,
                       double exams) {
  double rows = 0, width = 0;
  const double n = exams * frames.most;
  for (const DrawnRow& row : draws_of(task.config)) {
    rows += row.of_exams ? exams : n;
    width = std::max(width, double(row.width));
  }
  return values.by_autograd(n, exams, frames.most, true) + rows * width;  // 16 bits, twice
}

// Slices the micro-batch as FusedStep does.
double training_values(const StepValues& values, const FitTask& task, const Frames& frames,
                       double exams) {
  if (records_steps(task)) return recorded_values(values, task, frames, exams);
  if (!is_fused(task)) return values.by_autograd(frames.of(exams), exams, frames.most, true);
  const double slices = std::clamp(std::floor(exams / kExamsPerSlice), 1.0, double(kMaxSlices));
  const double each = std::ceil(exams / slices), n = frames.of(each);
  const double mixed = task.options.mixup > 0 ? n * double(task.config.dimension) : 0;
  return slices * (values.forward(n, each) + values.backward(n, each) + mixed) +
         (slices - 1) * values.parameters();
}

double evaluation_values(const StepValues& values, const FitTask& task, std::size_t at_once) {
  double most = 0;
  for (const auto* exams : {&task.split.validation, &task.split.test}) {
    const Frames frames = frames_of(task.dataset, *exams, 0);
    const auto each = static_cast<double>(std::min(at_once, exams->size()));
    const double count = std::ceil(double(exams->size()) / std::max(each, 1.0));
    const double n = frames.of(each);
    const double passes = std::min(double(task.threads), count);
    most = std::max(most, is_fused(task) ? passes * values.forward(n, each)
                                         : values.by_autograd(n, each, frames.most, false));
  }
  return most;
}

// Nine tables of summaries, and of one of them three in double precision and its axes.
std::uint64_t summary_tables(const FitTask& task) {
  const auto exams = double(task.split.train.size() + task.split.validation.size());
  const auto width = double(task.config.dimension + task.config.covariates);
  const double axes = std::min(exams, width);
  return static_cast<std::uint64_t>(exams * width * (9 * 4 + 3 * 8) + 8 * axes * (axes + width));
}

}  // namespace

FitMemory predict_model(const FitTask& task, const MicroBatches& micro_batches) {
  const StepValues values(task.config);
  const bool fused = is_fused(task);
  const double parameters = values.parameters();
  const Frames frames = frames_of(task.dataset, task.split.train, task.options.train_frames);
  const auto exams = static_cast<double>(std::min(micro_batches.training, task.split.train.size()));
  const auto bytes = [](double count) { return static_cast<std::uint64_t>(kFloat * count); };
  FitMemory memory;
  memory.fixed = bytes((fused ? 7 : 6) * parameters + 4 * double(task.config.dimension));
  if (task.dataset.device.is_cuda()) memory.fixed += cuda_training_workspaces();
  memory.training = bytes(training_values(values, task, frames, exams));
  memory.evaluation =
      bytes(evaluation_values(values, task, micro_batches.evaluation) + (fused ? parameters : 0));
  if (!fused && !records_steps(task)) {  // what a step kept is gone when evaluation begins
    memory.training = std::max(memory.training, memory.evaluation);
    memory.evaluation = 0;
  }
  if (!task.config.architecture->by_steps) memory.fixed += summary_tables(task);
  return memory;
}

std::function<std::uint64_t(std::int64_t frames)> predict_head(const FitTask& task,
                                                               const MicroBatches& micro_batches) {
  const Frames all = frames_of(task.dataset, task.split.train, task.options.train_frames);
  const auto most = static_cast<double>(micro_batches.training);
  return [values = StepValues(task.config), all, most](std::int64_t frames) {
    const double n = std::min(double(frames), all.of(most));
    const double exams = std::clamp(std::ceil(n / std::max(all.mean, 1.0)), 1.0, most);
    return static_cast<std::uint64_t>(kFloat *
                                      values.by_autograd(n, exams, std::min(n, all.most), true));
  };
}

FitMemory predict_memory(const FitTask& task, const MicroBatches& micro_batches) {
  FitMemory memory = predict_model(task, micro_batches);
  if (task.tuned != nullptr) {
    const TuneMemory vit = plan_tuning(task);
    memory.fixed += vit.parameters + vit.rows;
  }
  return memory;
}

MicroBatches micro_batches_that_fit(const FitTask& task, MicroBatches micro_batches,
                                    std::uint64_t available) {
  const auto fits = [&] {
    const FitMemory memory = predict_model(task, micro_batches);
    return double(memory.training + memory.evaluation) <= kErrs * double(available);
  };
  while (!fits() && (micro_batches.training > 1 || micro_batches.evaluation > 1)) {
    std::size_t& larger = micro_batches.evaluation > micro_batches.training
                              ? micro_batches.evaluation
                              : micro_batches.training;
    larger = (larger + 1) / 2;
  }
  return micro_batches;
}

}  // namespace coldframe::temporal

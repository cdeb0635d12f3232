#include "train_temporal/commands/benchmark.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <span>
#include <tuple>

#include "common/cli/error.h"
#include "common/cli/interrupt.h"
#include "common/cli/log.h"
#include "common/numbers/quantile.h"
#include "common/text/table.h"
#include "common/text/text.h"
#include "common/torch/device.h"
#include "common/torch/memory.h"
#include "train_temporal/fit/memory_plan.h"
#include "train_temporal/fit/summary_fit.h"
#include "train_temporal/models/model_config.h"
#include "train_temporal/run/devices.h"

namespace coldframe::temporal {

namespace {

constexpr double kSeconds = 5, kSecondsOfOthers = 1;  // at least, in whole epochs
constexpr std::size_t kMaxEpochs = 1000;

double mean_frames(const Dataset& dataset, const std::vector<std::size_t>& exams) {
  double frames = 0;
  for (std::size_t exam : exams) frames += static_cast<double>(dataset.sequences[exam].frames());
  return frames / static_cast<double>(std::max<std::size_t>(exams.size(), 1));
}

// Of --search: a model that LibTorch computes, with the most inputs, the largest hidden state and
// the most layers, whose steps take the longest.
std::size_t slowest_setting(const Experiment& experiment) {
  const Split& split = experiment.splits.front();
  const auto effort = [&](std::size_t setting) {
    const ModelConfig model =
        experiment.config({experiment.options.model, split.repeat, split.fold, 0, setting});
    return std::tuple(!model.has_kernels(), model.dimension, model.hidden, model.layers);
  };
  std::size_t slowest = 0;
  for (std::size_t setting = 1; setting < experiment.settings.size(); ++setting)
    if (effort(setting) > effort(slowest)) slowest = setting;
  return slowest;
}

// Whole epochs with their validation, for so long at least: the medians, in seconds.
struct EpochTimes {
  double step = 0, epoch = 0;
  std::size_t epochs = 0;
};
EpochTimes time_epochs(Trainer& trainer, double seconds) {
  std::vector<double> steps, epochs;
  double spent = 0;
  while (epochs.size() < kMaxEpochs && spent < seconds) {
    if (stop_requested()) throw Interrupted("stopped; run the same command again");
    trainer.run_epoch();
    const LastEpoch& epoch = trainer.last_epoch();
    spent += epoch.seconds;
    epochs.push_back(epoch.seconds);
    steps.push_back(epoch.train_seconds / static_cast<double>(epoch.steps));
  }
  return {median(steps), median(epochs), epochs.size()};
}

FitTask example_task(const Experiment& experiment, const FitKind& kind, std::size_t setting) {
  FitName name = kind.example;
  name.setting = setting;
  FitTask task = experiment.task(name, *kind.split);
  task.threads = plan_fits(experiment).threads_per_fit;
  return task;
}

// A tuned fit also measures what it goes on from.
double epochs_of(const FitTask& task) {
  return static_cast<double>(task.options.epochs + (task.tuned != nullptr ? 1 : 0));
}

KindCost cost_of(const FitKind& kind, const FitTask& task, const EpochTimes& times) {
  return {kind.name, kind.fits, epochs_of(task) * times.epoch, times.epochs};
}

// Of the main model: times and memory.
EpochTimes measure_main(const Experiment& experiment, const FitTask& task, TrainBenchmark& result) {
  Trainer trainer(task);
  result.at_once = trainer.micro_batches().training;
  const FitMemory memory = predict_memory(task, trainer.micro_batches());
  result.predicted_bytes =
      result.features_bytes + (task.tuned != nullptr
                                   ? vit_tensors(experiment) + memory.fixed + predict_vit_step(task)
                                   : memory.total());
  const EpochTimes times = time_epochs(trainer, kSeconds);
  result.step_seconds = times.step;
  result.epoch_seconds = times.epoch;
  // Predicts the test part, too: that may take more than the validation part.
  if (trainer.finish().history.empty()) throw DataError(kDivergedAtOnce);
  result.at_once = trainer.micro_batches().training;
  result.measured_bytes = peak_device_memory(experiment.device());
  return times;
}

KindCost measure_fit(const FitKind& kind, const FitTask& task) {
  KindCost cost{kind.name, kind.fits};
  if (task.options.epochs == 0) return cost;  // taken from another run
  set_torch_threads(torch_threads(task));
  if (task.config.architecture->by_steps) {
    Trainer trainer(task);
    return cost_of(kind, task, time_epochs(trainer, kSecondsOfOthers));
  }
  const auto begun = std::chrono::steady_clock::now();
  fit_summary(task);
  cost.fit_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  return cost;
}

}  // namespace

double run_seconds(const std::vector<KindCost>& kinds, std::size_t side_by_side) {
  double all = 0, longest = 0;
  for (const KindCost& kind : kinds) {
    all += static_cast<double>(kind.fits) * kind.fit_seconds;
    longest = std::max(longest, kind.fit_seconds);
  }
  return std::max(all / static_cast<double>(side_by_side), longest);
}

TrainBenchmark measure_training(const Experiment& experiment, double load_seconds) {
  const TrainOptions& options = experiment.options;
  const Split& split = experiment.splits.front();
  const FitPlan plan = plan_fits(experiment);
  const std::vector<FitKind> kinds = fit_kinds(experiment);
  if (kinds.empty()) throw ConfigError("this --part has no fits to measure; take fewer parts");
  const FitTask task = example_task(experiment, kinds.front(), slowest_setting(experiment));

  TrainBenchmark result;
  result.device = device_name(experiment.device());
  result.model = model_name(task.config);
  result.exams = split.train.size();
  result.batch = options.fit.batch;
  result.frames_per_exam = mean_frames(experiment.dataset(), split.train);
  result.load_seconds = load_seconds;
  result.features_bytes = experiment.dataset().loaded_bytes();
  result.fits = plan.fits;
  result.side_by_side = plan.side_by_side;
  result.predicted_run_bytes = predicted_peak(experiment);

  set_torch_threads(torch_threads(task));
  reset_device_memory_peak(experiment.device());
  result.kinds.push_back(cost_of(kinds.front(), task, measure_main(experiment, task, result)));
  for (const FitKind& kind : std::span(kinds).subspan(1))
    result.kinds.push_back(measure_fit(kind, example_task(experiment, kind, 0)));
  result.longest_run_seconds = run_seconds(result.kinds, result.side_by_side);
  return result;
}

void require_affordable(const Experiment& experiment, double load_seconds) {
  const Requirements& required = experiment.options.required;
  if (!required.asked()) return;
  std::vector<std::string> takes, beyond;
  const auto check = [&](const std::string& what, double found, double most, const char* name,
                         const auto& text) {
    takes.push_back(concat(what, " ", text(found)));
    if (most > 0 && found > most)
      beyond.push_back(concat(takes.back(), ", more than ", name, "=", text(most)));
  };
  const auto bytes = [](double value) { return human_bytes(static_cast<std::uint64_t>(value)); };
  const auto seconds = [](double value) { return concat(fixed(value, 3), "s"); };
  const auto predicted = static_cast<double>(predicted_peak(experiment));
  if (required.times()) {
    const TrainBenchmark measured = measure_training(experiment, load_seconds);
    reset_device_memory_peak(experiment.device());
    check("an epoch takes", measured.epoch_seconds, required.epoch_seconds, "epoch", seconds);
    check("the run takes about", measured.longest_run_seconds, required.run_seconds, "run",
          human_duration);
  }
  check("predicted memory is", predicted, static_cast<double>(required.memory), "memory", bytes);
  if (beyond.empty()) return log_info(concat("--require holds: ", join(takes, ", ")));
  throw Error(ExitCode::kDoneWithFindings,
              concat("--require does not hold, and nothing was trained: ", join(beyond, "; "),
                     " (--benchmark says more; a smaller --batch, --hidden or --train-frames, "
                     "fewer --epochs, --seeds or --compare take less)"));
}

std::string to_table(const TrainBenchmark& b) {
  const double megabytes = static_cast<double>(b.features_bytes) / 1e6;
  const double error =
      100 * (static_cast<double>(b.predicted_bytes) /
                 static_cast<double>(std::max<std::uint64_t>(b.measured_bytes, 1)) -
             1);
  std::string text = concat(b.device, ", ", b.model, ", ", b.exams, " training exams of ",
                            fixed(b.frames_per_exam, 1), " frames, batch ", b.batch, "\n");
  const auto line = [&](const std::string& name, const std::string& value) {
    text += padded(name, 18) + " " + value + "\n";
  };
  line("load", concat(human_bytes(b.features_bytes), " in ", fixed(b.load_seconds, 2), " s, ",
                      fixed(megabytes / std::max(b.load_seconds, 1e-6), 0), " MB/s"));
  line("step", concat(fixed(1000 * b.step_seconds, 2), " ms, ", b.at_once, " exams at a time"));
  line("epoch", concat(fixed(b.epoch_seconds, 3), " s with validation, ",
                       fixed(b.epochs_per_hour(), 0), " an hour"));
  line("memory of one fit", concat("predicted ", human_bytes(b.predicted_bytes), ", measured ",
                                   human_bytes(b.measured_bytes), " (", error < 0 ? "" : "+",
                                   fixed(error, 0), " %), features included"));
  std::vector<std::string> kinds, of_first_epoch;
  for (const KindCost& kind : b.kinds) {
    kinds.push_back(concat(kind.fits, " × ", kind.name, " ", human_duration(kind.fit_seconds)));
    if (kind.is_of_first_epoch()) of_first_epoch.push_back(kind.name);
  }
  line(
      "kinds of fits",
      concat(join(kinds, ", "), ", with all epochs",
             of_first_epoch.empty()
                 ? ""
                 : concat("; of ", join(of_first_epoch, ", "),
                          " the first epoch alone was timed, which takes longer than later ones")));
  line("whole run",
       concat(plural(b.fits, "fit"), ", ", b.side_by_side, " side by side: about ",
              human_duration(b.longest_run_seconds), " where none stops early, predicted memory ",
              human_bytes(b.predicted_run_bytes)));
  return text;
}

Json to_json(const TrainBenchmark& b) {
  Json kinds = Json::array();
  for (const KindCost& kind : b.kinds)
    kinds.push_back({{"name", kind.name},
                     {"fits", kind.fits},
                     {"fit_seconds", kind.fit_seconds},
                     {"epochs_timed", kind.epochs}});
  return {{"device", b.device},
          {"model", b.model},
          {"training_exams", b.exams},
          {"frames_per_exam", b.frames_per_exam},
          {"batch", b.batch},
          {"exams_at_a_time", b.at_once},
          {"features_bytes", b.features_bytes},
          {"load_seconds", b.load_seconds},
          {"step_seconds", b.step_seconds},
          {"epoch_seconds", b.epoch_seconds},
          {"epochs_per_hour", b.epochs_per_hour()},
          {"fit_predicted_bytes", b.predicted_bytes},
          {"fit_measured_bytes", b.measured_bytes},
          {"fits", b.fits},
          {"side_by_side", b.side_by_side},
          {"kinds", kinds},
          {"run_predicted_bytes", b.predicted_run_bytes},
          {"run_longest_seconds", b.longest_run_seconds}};
}

}  // namespace coldframe::temporal

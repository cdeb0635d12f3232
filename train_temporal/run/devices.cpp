#include "train_temporal/run/devices.h"

#include <c10/core/DeviceGuard.h>
#include <algorithm>
#include <atomic>
#include <exception>
#include <limits>
#include <mutex>

#include "common/cli/error.h"
#include "common/cli/interrupt.h"
#include "common/cli/log.h"
#include "common/system/gpu_libraries.h"
#include "common/system/resources.h"
#include "common/text/text.h"
#include "common/threads/threads.h"
#include "common/torch/device.h"
#include "common/torch/memory.h"
#include "train_temporal/fit/memory_plan.h"
#include "train_temporal/models/model_config.h"

namespace coldframe::temporal {

namespace {

std::vector<std::string> device_words(const TrainOptions& options) {
  const int count = cuda_driver::device_count();
  const bool all = options.device == "cuda" || options.device == "auto";
  if (!all || count == 0) return split(options.device, ',');
  if (options.step.several()) return {concat("cuda:", options.step.local_index % count)};
  std::vector<std::string> words = {options.device};
  for (int device = 1; device < count; ++device) words.push_back(concat("cuda:", device));
  return words;
}

}  // namespace

std::vector<torch::Device> prepare_devices(const TrainOptions& options) {
  const std::vector<std::string> words = device_words(options);
  bound_cuda_workspaces();
  budget_device_memory(words, options.memory_budget);
  std::vector<torch::Device> devices;
  for (const std::string& word : words) {
    devices.push_back(resolve_device(word));
    if (word == "auto" && devices.back().is_cpu()) break;  // LibTorch can use none of the GPUs
    if (devices.back().type() != devices.front().type())
      throw ConfigError(concat("--device ", options.device,
                               ": the fits of a run are computed on devices of one kind"));
  }
  return devices;
}

std::string device_names(const std::vector<torch::Device>& devices) {
  std::vector<std::string> names;
  for (const torch::Device& device : devices) names.push_back(device_name(device));
  return join(names, ", ");
}

std::vector<Dataset> on_each(const Dataset& dataset, const std::vector<torch::Device>& devices) {
  std::vector<Dataset> datasets;
  for (const torch::Device& device : devices) {
    Dataset& one = datasets.emplace_back(dataset);
    one.device = device;
    if (dataset.features.defined() && dataset.features.device() == dataset.device)
      one.features = dataset.features.to(device);
  }
  return datasets;
}

namespace {

constexpr std::size_t kSteps = 10;

// At most so many, evenly among all, in order.
std::vector<std::size_t> spread(const std::vector<std::size_t>& exams, std::size_t most) {
  const std::size_t count = std::min(exams.size(), most);
  std::vector<std::size_t> some;
  for (std::size_t i = 0; i < count; ++i) some.push_back(exams[i * exams.size() / count]);
  return some;
}

std::size_t divide_up(std::size_t count, std::size_t by) {
  return (count + by - 1) / by;
}

double time_steps(FitTask task) {
  const c10::DeviceGuard device(task.dataset.device);
  const std::size_t steps = divide_up(task.split.train.size(), task.options.batch);
  const std::size_t epochs = std::max<std::size_t>(divide_up(kSteps, steps), 3);
  task.options.epochs = epochs + 2;
  task.options.patience = 0;
  task.options.balanced = false;  // the few exams need not be of every class
  set_torch_threads(torch_threads(task));
  Trainer trainer(task);
  for (int i = 0; i < 2; ++i) trainer.run_epoch();  // warms up, and records most lengths of batches
  double quickest = std::numeric_limits<double>::infinity();
  for (std::size_t epoch = 0; epoch < epochs; ++epoch) {
    if (stop_requested()) throw Interrupted("stopped; run the same command again");
    trainer.run_epoch();
    quickest = std::min(quickest, trainer.last_epoch().seconds);
  }
  return quickest / static_cast<double>(steps);
}

}  // namespace

std::string QuickestDevice::text() const {
  std::vector<std::string> said, names;
  for (const TriedDevices& one : tried)
    said.push_back(one.problem.empty()
                       ? concat(one.name, " ", fixed(1e3 * one.seconds, 2), " ms a step")
                       : concat(one.name, " does not do a step (", one.problem, ")"));
  for (const torch::Device& device : devices()) names.push_back(device.str());
  return concat("device auto: ", join(said, ", "), ": ", join(names, ", "));
}

Json to_json(const QuickestDevice& quickest) {
  Json json = Json::object();
  for (const TriedDevices& one : quickest.tried)
    json[one.name] = one.problem.empty() ? Json(one.seconds) : Json(one.problem);
  return json;
}

QuickestDevice quickest_device(std::vector<TriedDevices> candidates,
                               const SecondsPerStep& seconds_per_step) {
  QuickestDevice quickest{std::move(candidates), 0};
  const TriedDevices* best = nullptr;
  for (TriedDevices& one : quickest.tried) {
    try {
      one.seconds = seconds_per_step(one.devices);
      if (best == nullptr || one.seconds < best->seconds) best = &one;
    } catch (const Interrupted&) {
      throw;
    } catch (const std::exception& error) {
      one.problem = first_line(error);
    }
  }
  if (best == nullptr) best = &quickest.tried.back();
  quickest.taken = static_cast<std::size_t>(best - quickest.tried.data());
  return quickest;
}

std::optional<TriedFit> tried_fit(const Experiment& experiment) {
  const Split& whole = experiment.splits.front();
  for (const std::string& model : experiment.options.models()) {
    TriedFit fit{{model, whole.repeat, whole.fold}, whole};
    if (!experiment.config(fit.name).architecture->by_steps) continue;
    Split& few = fit.split;
    few.train = spread(whole.train, kSteps * experiment.options.fit.batch);
    few.validation = spread(whole.validation, divide_up(whole.validation.size() * few.train.size(),
                                                        whole.train.size()));
    few.test.clear();
    return fit;
  }
  return std::nullopt;
}

double seconds_per_step(const Experiment& experiment, const TriedFit& fit) {
  const FitPlan plan = plan_fits(experiment);
  std::atomic<std::size_t> threads{0};
  std::mutex mutex;
  std::vector<double> seconds;  // of each fit
  std::exception_ptr error;
  run_threads(plan.side_by_side, [&] {
    try {
      FitTask task = experiment.task(fit.name, fit.split, threads++);
      task.threads = plan.threads_per_fit;
      const double found = time_steps(std::move(task));
      const std::scoped_lock lock(mutex);
      seconds.push_back(found);
    } catch (...) {
      const std::scoped_lock lock(mutex);
      if (!error) error = std::current_exception();
    }
  });
  if (error) std::rethrow_exception(error);
  double sum = 0;
  for (const double one : seconds) sum += one;
  const auto fits = static_cast<double>(seconds.size());
  return sum / fits / fits;  // the mean, of fits that go on at the same time
}

torch::Device quickest_for(Ensemble& ensemble, const SequenceReader& cache,
                           const std::vector<std::size_t>& exams, const torch::Device& gpu) {
  constexpr std::size_t kBatch = 256;
  const torch::Device cpu(torch::kCPU);
  const std::size_t batches = ensemble.size() * divide_up(exams.size(), kBatch);
  if (batches < kSteps) {
    log_info(concat("device auto: fewer than ", kSteps, " batches of ", kBatch,
                    " exams are done before a GPU is tried: ", device_name(cpu)));
    return cpu;
  }
  const auto few = spread(exams, kBatch * std::min(batches / kSteps, kSteps));
  const auto steps = static_cast<double>(divide_up(few.size(), kBatch));
  ensemble.take_covariates(cache, exams);
  const QuickestDevice quickest = quickest_device(
      {{device_name(gpu), {gpu}}, {device_name(cpu), {cpu}}}, [&](const auto& devices) {
        return ensemble.seconds_for(cache, few, devices.front()) / steps;
      });
  release_device_memory(gpu);
  log_info(quickest.text());
  return quickest.devices().front();
}

namespace {

// Without a ViT's step, in which the temporal model is.
std::uint64_t predicted_fit(const FitTask& task, std::uint64_t budget, std::uint64_t features) {
  if (task.tuned != nullptr) return predict_memory(task, {1, 1}).fixed;
  MicroBatches micro_batches = first_micro_batches(task);
  if (budget > features) {
    const std::uint64_t fixed = predict_memory(task, micro_batches).fixed;
    const std::uint64_t left = budget - features;
    micro_batches = micro_batches_that_fit(task, micro_batches, left - std::min(left, fixed));
  }
  return predict_memory(task, micro_batches).total();
}

// The most that a fit of the run takes, as `memory` tells it.
template <typename Memory>
std::uint64_t most_of_fits(const Experiment& experiment, Memory memory) {
  const std::size_t settings = std::max<std::size_t>(experiment.settings.size(), 1);
  std::uint64_t most = 0;
  for (const std::string& model : experiment.options.models()) {
    for (const Split& split : experiment.splits) {
      const auto most_of = [&](std::size_t setting, const std::string& frame) {
        const FitName fit{model, split.repeat, split.fold, 0, setting, frame};
        most = std::max(most, memory(experiment.task(fit, split)));
      };
      for (std::size_t setting = 0; setting < settings; ++setting) most_of(setting, "");
      for (const std::string& frame : candidates(experiment, model)) most_of(0, frame);
    }
  }
  return most;
}

// The largest of all models, each on the first split.
std::uint64_t vit_step(const Experiment& experiment) {
  const Split& split = experiment.splits.front();
  std::uint64_t most = 0;
  for (const std::string& model : experiment.options.models())
    most = std::max(most,
                    predict_vit_step(experiment.task({model, split.repeat, split.fold, 0}, split)));
  return most;
}

}  // namespace

std::uint64_t vit_tensors(const Experiment& experiment) {
  std::uint64_t bytes = 0;
  if (experiment.tuned == nullptr) return bytes;
  for (const auto& [name, tensor] : experiment.tuned->tensors()) bytes += tensor.nbytes();
  return bytes;
}

std::uint64_t predicted_peak(const Experiment& experiment) {
  const FitPlan plan = plan_fits(experiment);
  const std::uint64_t features = experiment.dataset().loaded_bytes();
  const std::uint64_t most = most_of_fits(experiment, [&](FitTask task) {
    task.threads = plan.threads_per_fit;
    return predicted_fit(task, experiment.options.memory_budget, features);
  });
  return features + plan.on_a_device * (most + vit_step(experiment)) + vit_tensors(experiment);
}

std::uint64_t min_memory(const Experiment& experiment) {
  const std::uint64_t most = most_of_fits(experiment, [](const FitTask& task) {
    return predict_memory(task, {1, 1}).total();
  });
  return experiment.dataset().loaded_bytes() + most + vit_tensors(experiment);
}

MemoryUse memory_use(const std::vector<FinishedFit>& fits, const Experiment& experiment) {
  const std::size_t batch = experiment.options.fit.batch;
  MemoryUse use{peak_device_memory(experiment.device()),
                predicted_peak(experiment),
                experiment.options.memory_budget,
                0,
                vit_step(experiment),
                batch,
                batch,
                peak_resident_bytes()};
  for (const FinishedFit& fit : fits)
    use.at_once = std::min(use.at_once, fit.record.micro_batches.training);
  for (const FinishedFit& fit : fits) use.step_peak = std::max(use.step_peak, fit.record.vit_peak);
  return use;
}

std::string to_text(const MemoryUse& use) {
  return concat("tensors ", human_bytes(use.peak), " at most",
                use.budget > 0 ? concat(", of a budget of ", human_bytes(use.budget)) : "",
                "; the process ", human_bytes(use.resident),
                " resident at most, with LibTorch and what it keeps");
}

KeyValues to_facts(const MemoryUse& use) {
  std::string tensors =
      concat(human_bytes(use.peak), " at most, predicted ", human_bytes(use.predicted));
  if (use.budget > 0) {
    const double share = static_cast<double>(use.peak) / static_cast<double>(use.budget);
    tensors += concat(", of a budget of ", human_bytes(use.budget), ": headroom ",
                      fixed(100 * (1 - share), 0), " %");
  }
  KeyValues facts = {{"tensors on the device", tensors}};
  if (use.step_peak > 0)
    facts.emplace_back("of it a step of the ViT",
                       concat(human_bytes(use.step_peak), " at most, predicted ",
                              human_bytes(use.step_predicted)));
  if (use.at_once < use.batch) {
    facts.emplace_back("exams at a time", concat(use.at_once, " of a batch of ", use.batch));
  }
  return facts;
}

Json to_json(const MemoryUse& use) {
  Json json{{"tensors_peak_bytes", use.peak},
            {"tensors_predicted_bytes", use.predicted},
            {"budget_bytes", use.budget},
            {"resident_peak_bytes", use.resident},
            {"batch", use.batch},
            {"exams_at_a_time", use.at_once}};
  if (use.step_peak > 0) {
    json["step_peak_bytes"] = use.step_peak;
    json["step_predicted_bytes"] = use.step_predicted;
  }
  return json;
}

}  // namespace coldframe::temporal

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
#include "common/system/cuda_driver.h"
#include "common/text/text.h"
#include "common/threads/threads.h"
#include "common/torch/device.h"
#include "common/torch/device_memory.h"
#include "common/torch/error_text.h"
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

}  // namespace coldframe::temporal

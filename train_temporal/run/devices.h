// Devices of fits side by side, how `auto` chooses one, and what fits take of memory.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "train_temporal/data/dataset.h"
#include "train_temporal/report/report.h"
#include "train_temporal/run/cross_validation.h"
#include "train_temporal/run/ensemble.h"
#include "train_temporal/run/options.h"

namespace coldframe::temporal {

// The devices on which a process runs fits in parallel.

// Prepares the devices of --device, each limited by --memory-budget. "cuda" and "auto" are all GPUs
// visible to this process; each of several processes of a job step takes one of its own.
// "cuda:0,cuda:1" names some ("cpu,cpu" is for tests).
std::vector<torch::Device> prepare_devices(const TrainOptions& options);

std::string device_names(const std::vector<torch::Device>& devices);

// Copies features that are on the first device to each device; features in host memory are shared.
std::vector<Dataset> on_each(const Dataset& dataset, const std::vector<torch::Device>& devices);

// --device auto on a machine with a GPU: measures a few steps of the job to find the fastest
// device.

// Devices that run a job in parallel, and their measurement.
struct TriedDevices {
  std::string name;  // "cuda:0 (NVIDIA H200)"
  std::vector<torch::Device> devices;
  double seconds = 0;        // a step
  std::string problem = {};  // why it failed; empty: success
};

struct QuickestDevice {
  std::vector<TriedDevices> tried;
  std::size_t taken = 0;

  const std::vector<torch::Device>& devices() const { return tried[taken].devices; }
  // "device auto: cuda:0 (NVIDIA H200) 0.4 ms a step, cpu (…, 16 threads) 0.6 ms a step: cuda:0"
  std::string text() const;
};
Json to_json(const QuickestDevice& quickest);  // by name: seconds per step, or the problem

// Measures the candidates in order and takes the fastest, the first of equals. If none can do a
// step, for whatever reason, it takes the last.
using SecondsPerStep = std::function<double(const std::vector<torch::Device>&)>;
QuickestDevice quickest_device(std::vector<TriedDevices> candidates,
                               const SecondsPerStep& seconds_per_step);

// A fit of few exams, about ten steps per epoch, that represents a run's fits.
struct TriedFit {
  FitName name;
  Split split;
};
// For the first model that is fitted by gradient steps; empty if there is none.
std::optional<TriedFit> tried_fit(const Experiment& experiment);
// Runs as many such fits in parallel as the run would have on the experiment's devices; returns
// time per step of the fastest of some epochs, including validation. The datasets must hold the
// split's exams.
double seconds_per_step(const Experiment& experiment, const TriedFit& fit);

// GPU or CPU, whichever predicts these exams faster; a step is a batch of a GPU's size. Jobs of
// less than ten steps go to the CPU without measurement.
torch::Device quickest_for(Ensemble& ensemble, const SequenceReader& cache,
                           const std::vector<std::size_t>& exams, const torch::Device& gpu);

// Measured and predicted memory of a run, for its report and summary.json.

struct MemoryUse {
  std::uint64_t peak = 0, predicted = 0, budget = 0;  // bytes of tensors on it; 0: no budget
  std::uint64_t step_peak = 0, step_predicted = 0;    // of a tuned fit's step, above what it holds
  std::size_t batch = 0, at_once = 0;                 // exams per step, and per micro-batch
  std::uint64_t resident = 0;  // bytes of the process at most: libraries and what they keep, too
};
MemoryUse memory_use(const std::vector<FinishedFit>& fits, const Experiment& experiment);

// Features and parallel fits on a device, by predict_memory() and predict_vit_step(); with a
// budget, after the reductions that it forces.
std::uint64_t predicted_peak(const Experiment& experiment);

// The weights of --tune, which all fits share.
std::uint64_t vit_tensors(const Experiment& experiment);

// The minimum: features and one fit with one exam at a time.
std::uint64_t min_memory(const Experiment& experiment);

KeyValues to_facts(const MemoryUse& use);
std::string to_text(const MemoryUse& use);  // "tensors 929.0 MiB at most, of a budget of …"
Json to_json(const MemoryUse& use);

}  // namespace coldframe::temporal

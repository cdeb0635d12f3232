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

// The devices on which a process computes fits, side by side.

// --device, ready for use and bounded by --memory-budget, each. "cuda" and "auto" are all GPUs that
// this process sees; of several processes of a job step each takes one of its own. "cuda:0,cuda:1"
// names some ("cpu,cpu" is for tests).
std::vector<torch::Device> prepare_devices(const TrainOptions& options);

std::string device_names(const std::vector<torch::Device>& devices);

// Gives each device its own copy of features that lie on the first one; those in memory are shared.
std::vector<Dataset> on_each(const Dataset& dataset, const std::vector<torch::Device>& devices);

// --device auto on a machine with a GPU: a few steps of the job say which device is the quickest.

// Devices that compute a job side by side, and how they did.
struct TriedDevices {
  std::string name;  // "cuda:0 (NVIDIA H200)"
  std::vector<torch::Device> devices;
  double seconds = 0;        // a step
  std::string problem = {};  // why there was none; empty: there was
};

struct QuickestDevice {
  std::vector<TriedDevices> tried;
  std::size_t taken = 0;

  const std::vector<torch::Device>& devices() const { return tried[taken].devices; }
  // "device auto: cuda:0 (NVIDIA H200) 0.4 ms a step, cpu (…, 16 threads) 0.6 ms a step: cuda:0"
  std::string text() const;
};
Json to_json(const QuickestDevice& quickest);  // by name: seconds a step, or the problem

// Tries them in turn; the first of equals is taken. The last is taken where none can do a step,
// whatever the reason.
using SecondsPerStep = std::function<double(const std::vector<torch::Device>&)>;
QuickestDevice quickest_device(std::vector<TriedDevices> candidates,
                               const SecondsPerStep& seconds_per_step);

// A fit of few exams, some ten steps an epoch, that stands for a run's.
struct TriedFit {
  FitName name;
  Split split;
};
// Of the first model that is fitted by steps; nothing where none is.
std::optional<TriedFit> tried_fit(const Experiment& experiment);
// Of as many such fits side by side as the run would have on the experiment's devices: time over
// steps in the quickest of some epochs, validation included. The datasets hold the split's exams.
double seconds_per_step(const Experiment& experiment, const TriedFit& fit);

// The GPU or the CPU, for predictions of these exams; a step is a batch of a GPU's size. A job of
// less than ten goes to the CPU untried.
torch::Device quickest_for(Ensemble& ensemble, const SequenceReader& cache,
                           const std::vector<std::size_t>& exams, const torch::Device& gpu);

// Measured and predicted memory of a run, as its report and summary.json state them.

struct MemoryUse {
  std::uint64_t peak = 0, predicted = 0, budget = 0;  // bytes of tensors on it; no budget: 0
  std::uint64_t step_peak = 0, step_predicted = 0;    // of a tuned fit's step, above what it holds
  std::size_t batch = 0, at_once = 0;  // exams per step, and of these through the model at a time
};
MemoryUse memory_use(const std::vector<FinishedFit>& fits, const Experiment& experiment);

// Features and the fits that run side by side on a device, by predict_memory() and
// predict_vit_step(); under a budget after the cuts that it forces.
std::uint64_t predicted_peak(const Experiment& experiment);

// The weights of --tune, which all fits share.
std::uint64_t vit_tensors(const Experiment& experiment);

// Features and one fit with one exam at a time: less does not do.
std::uint64_t min_memory(const Experiment& experiment);

KeyValues to_facts(const MemoryUse& use);
Json to_json(const MemoryUse& use);

}  // namespace coldframe::temporal

// The devices on which a process computes fits, side by side.
#pragma once

#include <string>
#include <vector>

#include "train_temporal/data/dataset.h"
#include "train_temporal/run/options/options.h"

namespace coldframe::temporal {

// --device, ready for use and bounded by --memory-budget, each. "cuda" and "auto" are all GPUs that
// this process sees; of several processes of a job step each takes one of its own. "cuda:0,cuda:1"
// names some ("cpu,cpu" is for tests).
std::vector<torch::Device> prepare_devices(const TrainOptions& options);

std::string device_names(const std::vector<torch::Device>& devices);

// Gives each device its own copy of features that lie on the first one; those in memory are shared.
std::vector<Dataset> on_each(const Dataset& dataset, const std::vector<torch::Device>& devices);

}  // namespace coldframe::temporal

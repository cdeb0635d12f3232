#include "train_temporal/run/devices.h"

#include "common/cli/error.h"
#include "common/system/cuda_driver.h"
#include "common/text/text.h"
#include "common/torch/device.h"
#include "common/torch/device_memory.h"

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

}  // namespace coldframe::temporal

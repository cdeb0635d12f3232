#include "extract/pipeline/devices/compute_devices.h"

#include <algorithm>

#include "common/system/cuda_driver.h"
#include "common/text/text.h"
#include "common/torch/device.h"

namespace coldframe::extract {

ComputeDevices::ComputeDevices(const std::vector<std::string>& words, int threads) {
  for (const std::string& word : words) devices_.push_back(resolve_device(word));
  if (threads) set_torch_threads(threads);
  const auto on_cpu =
      static_cast<int>(std::count_if(devices_.begin(), devices_.end(),
                                     [](const torch::Device& device) { return device.is_cpu(); }));
  if (on_cpu > 1) set_torch_threads(std::max(1, torch::get_num_threads() / on_cpu));
}

void ComputeDevices::load(
    const std::function<std::unique_ptr<vit::Backbone>(const torch::Device&)>& make) {
  backbones_.clear();
  for (const torch::Device& device : devices_) backbones_.push_back(make(device));
}

std::vector<ComputeDevice> ComputeDevices::all() const {
  std::vector<ComputeDevice> all;
  for (std::size_t i = 0; i < backbones_.size(); ++i)
    all.push_back({devices_[i], backbones_[i].get()});
  return all;
}

std::string ComputeDevices::names() const {
  std::vector<std::string> names;
  for (const torch::Device& device : devices_) names.push_back(device_name(device));
  return join(names, ", ");
}

std::vector<std::string> ComputeDevices::gpus() const {
  std::vector<std::string> ids;
  for (const torch::Device& device : devices_)
    if (device.is_cuda()) ids.push_back(cuda_driver::pci_bus_id(device.index()));
  return ids;
}

}  // namespace coldframe::extract

// The devices of a job and a copy of the backbone on each.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/torch/tensor.h"
#include "extract/pipeline/pipeline.h"

namespace coldframe::extract {

class ComputeDevices {
 public:
  // `words` are those of --device or --devices, as resolve_device() takes them. Workers on the CPU
  // share `threads` threads (0: LibTorch's choice).
  ComputeDevices(const std::vector<std::string>& words, int threads);

  // `make` is called for one device after the other. What was loaded before goes.
  void load(const std::function<std::unique_ptr<vit::Backbone>(const torch::Device&)>& make);

  const torch::Device& first() const { return devices_.front(); }
  vit::Backbone& backbone() const { return *backbones_.front(); }
  std::vector<ComputeDevice> all() const;
  std::string names() const;              // "cuda:0 (NVIDIA H200), cuda:1 (NVIDIA H200)"
  std::vector<std::string> gpus() const;  // PCI bus ids

 private:
  std::vector<torch::Device> devices_;
  std::vector<std::unique_ptr<vit::Backbone>> backbones_;
};

}  // namespace coldframe::extract

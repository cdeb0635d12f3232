// Turns uint8 frames in host memory into the backbone's normalised input on its device.
#pragma once

#include "common/torch/tensor.h"
#include "extract/preprocess/preprocessing.h"

namespace coldframe::extract {

class DeviceInput {
 public:
  DeviceInput(const preprocess::Preprocessing& preprocessing, const torch::Device& device);

  // frames [B, S, S, 3] uint8 on the CPU or the device -> [B, 3, S, S] float32 on the device.
  torch::Tensor operator()(const torch::Tensor& frames) const;

  // The normalised value of each level of each channel: [3, 256] float32 on the device.
  const torch::Tensor& levels() const { return table_; }

 private:
  torch::Tensor on_cpu(const torch::Tensor& frames) const;
  torch::Tensor on_cuda(const torch::Tensor& frames) const;

  preprocess::Preprocessing preprocessing_;
  torch::Device device_;
  torch::Tensor table_;  // [3, 256] on the device
};

}  // namespace coldframe::extract

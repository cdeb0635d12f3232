// Tensors out of a .pth file's views of storages, each view held against its storage.
#pragma once

#include <map>
#include <string>

#include "extract/vit/checkpoint/pth/pth_file.h"

namespace coldframe::vit {

class TensorBuilder {
 public:
  explicit TensorBuilder(PthFile& file) : file_(file) {}

  // The tensor as torch.load gives it: same type, sizes and strides, storages shared. DataError for
  // a view that reaches outside its storage.
  torch::Tensor build(const pickle::TensorView& view);

 private:
  torch::Tensor storage_bytes(const pickle::Storage& storage);

  PthFile& file_;
  std::map<std::string, torch::Tensor> storages_;  // by key, as bytes
  std::uint64_t loaded_ = 0;                       // bytes of the storages read
  std::uint64_t built_ = 0;                        // elements of all tensors, were none shared
};

}  // namespace coldframe::vit

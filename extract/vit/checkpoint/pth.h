// Tensors of a .pth file in either of PyTorch's two formats.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>

#include "common/files/bytes/byte_source.h"
#include "common/torch/tensor.h"
#include "extract/vit/checkpoint/pickle_objects.h"

namespace coldframe::vit {

class PthFile {
 public:
  virtual ~PthFile() = default;

  const pickle::Value& root() const { return *root_; }
  // The tensor as torch.load gives it: same type, sizes and strides, storages shared. DataError for
  // one that reaches outside its storage.
  torch::Tensor build(const pickle::Value& tensor);

 protected:
  explicit PthFile(const ByteSource& file) : file_(file) {}

  const ByteSource& file_;
  pickle::Heap heap_;
  const pickle::Value* root_ = nullptr;

 private:
  // Fills `bytes` with a whole storage, which must have as many; DataError otherwise.
  virtual void read_storage(const pickle::Storage& storage, std::span<std::byte> bytes) = 0;
  const torch::Tensor& storage_bytes(const pickle::Storage& storage);

  std::map<std::string, torch::Tensor> storages_;  // by key, as bytes
  std::uint64_t loaded_ = 0;                       // bytes of the storages read
  std::uint64_t built_ = 0;                        // elements of all tensors, were none shared
};

// Null for a file of another kind. The file must outlive what is returned.
std::unique_ptr<PthFile> open_pth(const ByteSource& file);

}  // namespace coldframe::vit

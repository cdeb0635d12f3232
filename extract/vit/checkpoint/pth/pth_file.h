// A .pth file in either of PyTorch's two formats: its pickle, and the bytes of its storages.
#pragma once

#include <memory>
#include <span>

#include "common/files/bytes/byte_source.h"
#include "extract/vit/checkpoint/pickle/value.h"

namespace coldframe::vit {

class PthFile {
 public:
  virtual ~PthFile() = default;

  const pickle::Value& root() const { return *root_; }
  const pickle::TensorView& view(const pickle::Value& tensor) const {
    return heap_.views[*tensor.view];
  }
  std::uint64_t file_size() const { return file_.size(); }
  // The bytes of a whole storage, of which there are exactly bytes.size(); DataError otherwise.
  virtual void read_storage(const pickle::Storage& storage, std::span<std::byte> bytes) = 0;

 protected:
  explicit PthFile(const ByteSource& file) : file_(file) {}

  const ByteSource& file_;
  pickle::Heap heap_;
  const pickle::Value* root_ = nullptr;
};

// The formats by the file's first bytes.
bool is_pth_zip(const ByteSource& file);
bool is_pth_legacy(const ByteSource& file);

std::unique_ptr<PthFile> open_pth_zip(const ByteSource& file);
std::unique_ptr<PthFile> open_pth_legacy(const ByteSource& file);

// A pickle beyond this is no state dict: the tensors' content lies outside it.
inline constexpr std::uint64_t kMaxPickle = 64u << 20;

}  // namespace coldframe::vit

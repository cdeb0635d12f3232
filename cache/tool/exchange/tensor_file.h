// Arrays in the files of others: numpy's .npy and .npz, and safetensors, written in a stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "common/files/atomic_file.h"

namespace coldframe::cache::tool {

enum class ElementType { kFloat16, kFloat32, kFloat64, kInt64, kUint8 };
std::size_t element_bytes(ElementType type);

// One array, row-major and little-endian. `write` hands its bytes over piece by piece.
struct Tensor {
  using Sink = std::function<void(std::span<const std::byte>)>;
  std::string name;
  ElementType type;
  std::vector<std::uint64_t> shape;
  std::function<void(const Sink&)> write;

  std::uint64_t bytes() const;
};

// NPY format 1.0 (numpy.lib.format).
void write_npy(AtomicFile& file, const Tensor& tensor);

// A ZIP archive of uncompressed .npy members, as numpy.savez writes, with ZIP64 sizes (PKWARE
// APPNOTE 6.3.3, 4.3.9 and 4.5.3).
void write_npz(AtomicFile& file, const std::vector<Tensor>& tensors);

// safetensors: 8 bytes of header length, a JSON header padded to 8 bytes, the data. `metadata`:
// texts by name.
void write_safetensors(AtomicFile& file, const std::vector<Tensor>& tensors,
                       const std::vector<std::pair<std::string, std::string>>& metadata);

}  // namespace coldframe::cache::tool

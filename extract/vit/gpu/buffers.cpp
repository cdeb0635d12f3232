#include "extract/vit/gpu/buffers.h"

#include <c10/util/accumulate.h>

namespace coldframe::vit::gpu {

// The smallest free one that is large enough.
torch::Tensor Buffers::take(torch::IntArrayRef sizes, torch::ScalarType type) {
  const std::int64_t bytes =
      c10::multiply_integers(sizes) * static_cast<std::int64_t>(torch::elementSize(type));
  const torch::Tensor* found = nullptr;
  for (const torch::Tensor& one : all_)
    if (one.storage().use_count() == 1 && one.numel() >= bytes &&
        (!found || one.numel() < found->numel()))
      found = &one;
  if (!found)
    found = &all_.emplace_back(
        torch::empty({bytes}, torch::TensorOptions(device_).dtype(torch::kUInt8)));
  return found->narrow(0, 0, bytes).view(type).view(sizes);
}

}  // namespace coldframe::vit::gpu

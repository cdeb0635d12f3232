#include "common/torch/to_device.h"

#include <c10/util/accumulate.h>

namespace coldframe {

void Parcel::send(const torch::Device& device) {
  const torch::Tensor all = to_device(
      torch::from_blob(bytes_.data(), static_cast<std::int64_t>(bytes_.size()), torch::kUInt8)
          .clone(),
      device);
  for (const Part& part : parts_) {
    const std::int64_t count = c10::multiply_integers(part.sizes);
    const auto bytes = count * static_cast<std::int64_t>(torch::elementSize(part.type));
    *part.to = all.narrow(0, static_cast<std::int64_t>(part.begin), bytes)
                   .view(part.type)
                   .view(part.sizes);
  }
}

}  // namespace coldframe

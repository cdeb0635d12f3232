#include "train_temporal/dropout.h"

namespace coldframe::temporal {

void Dropout::fill(Stream layer, std::span<const std::uint64_t> keys, std::int64_t width,
                   float* out) const {
  const auto threshold = static_cast<std::uint64_t>(probability_ * 4294967296.0);  // of 2^32
  const auto scale = static_cast<float>(1.0 / (1.0 - probability_));
  for (std::uint64_t key : keys) {
    const std::uint64_t start =
        CounterRandom({seed_, static_cast<std::uint64_t>(layer), epoch_, key}).next();
    for (std::int64_t i = 0; i < width; ++i) {
      const std::uint64_t bits = mix_bits(start + static_cast<std::uint64_t>(i));
      *out++ = (bits >> 32) >= threshold ? scale : 0.0f;
    }
  }
}

torch::Tensor Dropout::mask(Stream layer, std::span<const std::uint64_t> keys,
                            std::int64_t width) const {
  torch::Tensor mask = torch::empty({static_cast<std::int64_t>(keys.size()), width});
  fill(layer, keys, width, mask.data_ptr<float>());
  return mask;
}

torch::Tensor Dropout::operator()(const torch::Tensor& x, Stream layer,
                                  std::span<const std::uint64_t> keys) const {
  return active() ? x * mask(layer, keys, x.size(1)).to(x.device()) : x;
}

}  // namespace coldframe::temporal

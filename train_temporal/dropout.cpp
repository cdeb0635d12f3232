#include "train_temporal/dropout.h"

namespace coldframe::temporal {

torch::Tensor Dropout::operator()(const torch::Tensor& x, Stream layer,
                                  std::span<const std::uint64_t> keys) const {
  if (probability_ <= 0) return x;
  const std::int64_t width = x.size(1);
  torch::Tensor mask = torch::empty({x.size(0), width});
  const auto threshold = static_cast<std::uint64_t>(probability_ * 4294967296.0);  // of 2^32
  const auto scale = static_cast<float>(1.0 / (1.0 - probability_));
  float* out = mask.data_ptr<float>();
  for (std::uint64_t key : keys) {
    const std::uint64_t start =
        CounterRandom({seed_, static_cast<std::uint64_t>(layer), epoch_, key}).next();
    for (std::int64_t i = 0; i < width; ++i) {
      const std::uint64_t bits = mix_bits(start + static_cast<std::uint64_t>(i));
      *out++ = (bits >> 32) >= threshold ? scale : 0.0f;
    }
  }
  return x * mask.to(x.device());
}

}  // namespace coldframe::temporal

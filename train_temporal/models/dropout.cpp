#include "train_temporal/models/dropout.h"

#include <algorithm>
#include <cmath>

#include "train_temporal/models/device_draws.h"
#include "train_temporal/models/kernels/kernels.h"

namespace coldframe::temporal {

Dropout Dropout::from(const StepDraws& draws) const {
  Dropout drawn = *this;
  drawn.drawn_ = &draws;
  return drawn;
}

// 16 bits decide on a value, so the probability is rounded to a multiple of 2^-16.
Dropout::Factors Dropout::factors() const {
  constexpr double kSteps = 65536;
  const auto threshold =
      static_cast<std::uint16_t>(std::min(std::round(probability_ * kSteps), kSteps - 1));
  return {threshold, static_cast<float>(kSteps / (kSteps - static_cast<double>(threshold)))};
}

std::vector<std::uint64_t> Dropout::starts(RandomPurpose layer,
                                           std::span<const std::uint64_t> keys) const {
  std::vector<std::uint64_t> all;
  for (const std::uint64_t key : keys)
    all.push_back(CounterRandom({seed_, static_cast<std::uint64_t>(layer), epoch_, key}).next());
  return all;
}

void Dropout::fill(RandomPurpose layer, std::span<const std::uint64_t> keys, std::int64_t width,
                   float* out) const {
  const auto [threshold, scale] = factors();
  for (const std::uint64_t start : starts(layer, keys)) {
    kernels().drop(width, {start, threshold, scale}, out);
    out += width;
  }
}

torch::Tensor Dropout::mask(RandomPurpose layer, std::span<const std::uint64_t> keys,
                            std::int64_t width, const torch::Device& device) const {
  if (drawn_ != nullptr) return drawn_->of(layer);
  if (!device.is_cpu()) {
    const auto [threshold, scale] = factors();
    return draw_mask(starts(layer, keys), width, threshold, scale, device);
  }
  torch::Tensor mask = torch::empty({static_cast<std::int64_t>(keys.size()), width});
  fill(layer, keys, width, mask.data_ptr<float>());
  return mask;
}

torch::Tensor Dropout::operator()(const torch::Tensor& x, RandomPurpose layer,
                                  std::span<const std::uint64_t> keys) const {
  return active() ? x * mask(layer, keys, x.size(1), x.device()) : x;
}

void Dropout::add_noise(std::span<const std::uint64_t> keys, std::int64_t width, float* x) const {
  if (!noisy()) return;
  for (const std::uint64_t start : starts(RandomPurpose::kInputNoise, keys)) {
    kernels().add_noise(width - clean_, {start, static_cast<float>(noise_)}, x);
    x += width;
  }
}

void Dropout::add_noise(std::span<const std::uint64_t> keys, torch::Tensor& x) const {
  if (!noisy()) return;
  constexpr RandomPurpose kNoise = RandomPurpose::kInputNoise;
  const std::int64_t width = x.size(1) - clean_;
  torch::Tensor noisy = x.narrow(1, 0, width);
  if (drawn_ != nullptr) {
    noisy.add_(drawn_->of(kNoise));
  } else if (x.is_cpu()) {
    add_noise(keys, x.size(1), x.data_ptr<float>());
  } else {
    noisy.add_(draw_noise(starts(kNoise, keys), width, static_cast<float>(noise_), x.device()));
  }
}

}  // namespace coldframe::temporal

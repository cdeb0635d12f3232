#include "train_temporal/models/dropout.h"

#include <algorithm>
#include <cmath>

#include "train_temporal/models/kernels/kernels.h"

namespace coldframe::temporal {
namespace {

constexpr double kSteps = 65536;

}  // namespace

void Dropout::fill(RandomPurpose layer, std::span<const std::uint64_t> keys, std::int64_t width,
                   float* out) const {
  // 16 bits decide on a value, so the probability is rounded to a multiple of 2^-16.
  const auto threshold =
      static_cast<std::uint16_t>(std::min(std::round(probability_ * kSteps), kSteps - 1));
  const auto scale = static_cast<float>(kSteps / (kSteps - static_cast<double>(threshold)));
  for (std::uint64_t key : keys) {
    kernels().drop(width, {start_of_row(layer, key), threshold, scale}, out);
    out += width;
  }
}

torch::Tensor Dropout::mask(RandomPurpose layer, std::span<const std::uint64_t> keys,
                            std::int64_t width) const {
  torch::Tensor mask = torch::empty({static_cast<std::int64_t>(keys.size()), width});
  fill(layer, keys, width, mask.data_ptr<float>());
  return mask;
}

torch::Tensor Dropout::operator()(const torch::Tensor& x, RandomPurpose layer,
                                  std::span<const std::uint64_t> keys) const {
  return active() ? x * mask(layer, keys, x.size(1)).to(x.device()) : x;
}

void Dropout::add_noise(std::span<const std::uint64_t> keys, std::int64_t width, float* x) const {
  if (!noisy()) return;
  const auto deviation = static_cast<float>(noise_);
  for (std::uint64_t key : keys) {
    kernels().add_noise(width - clean_, {start_of_row(RandomPurpose::kInputNoise, key), deviation},
                        x);
    x += width;
  }
}

void Dropout::add_noise(std::span<const std::uint64_t> keys, torch::Tensor x) const {
  if (!noisy()) return;
  if (x.is_cpu()) return add_noise(keys, x.size(1), x.data_ptr<float>());
  torch::Tensor noise = torch::zeros(x.sizes());
  add_noise(keys, x.size(1), noise.data_ptr<float>());
  x.add_(noise.to(x.device()));
}

}  // namespace coldframe::temporal

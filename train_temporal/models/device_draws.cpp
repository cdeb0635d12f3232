#include "train_temporal/models/device_draws.h"

#include "common/threads/counter_random.h"
#include "common/torch/to_device.h"
#include "train_temporal/models/kernels/kernels.h"

namespace coldframe::temporal {
namespace {

constexpr std::int64_t kWordDraws = 4;  // of 16 bits

// x ^ (x >> bits) of words without a sign, which LibTorch does not multiply.
void fold(torch::Tensor& x, int bits) {
  const std::int64_t kept = (std::int64_t{1} << (64 - bits)) - 1;
  x.bitwise_xor_(x.bitwise_right_shift(bits).bitwise_and_(kept));
}

// mix_bits() of starts[r] + i − i mod 4: four draws from each word, the lowest bits first. int16
torch::Tensor drawn_bits(const std::vector<std::uint64_t>& starts, std::int64_t width,
                         const torch::Device& device) {
  const std::vector<std::int64_t> words(starts.begin(), starts.end());
  torch::Tensor x = to_device(torch::tensor(words, torch::kInt64), device).unsqueeze(1);
  x = x + torch::arange(0, width, kWordDraws, x.options());
  fold(x, 30);
  x.mul_(static_cast<std::int64_t>(kMixFactors[0]));
  fold(x, 27);
  x.mul_(static_cast<std::int64_t>(kMixFactors[1]));
  fold(x, 31);
  return x.view(torch::kInt16).narrow(1, 0, width);
}

}  // namespace

torch::Tensor draw_mask(const std::vector<std::uint64_t>& starts, std::int64_t width,
                        std::uint16_t threshold, float scale, const torch::Device& device) {
  constexpr std::int64_t kLeast =
      -(1 << 15);  // numbers without a sign in the order of those with one
  const torch::Tensor drawn = drawn_bits(starts, width, device).bitwise_xor(kLeast);
  return drawn.ge(threshold + kLeast).to(torch::kFloat32).mul_(scale);
}

torch::Tensor draw_noise(const std::vector<std::uint64_t>& starts, std::int64_t width,
                         float deviation, const torch::Device& device) {
  const std::span quantiles(normal_quantiles(), kQuantiles);
  const torch::Tensor values =
      torch::tensor(std::vector<float>(quantiles.begin(), quantiles.end())).mul_(deviation);
  const torch::Tensor chosen =
      drawn_bits(starts, width, device).bitwise_and(std::int64_t{kQuantiles} - 1);
  return to_device(values, device)
      .index_select(0, chosen.flatten().to(torch::kInt32))
      .view({chosen.size(0), width});
}

}  // namespace coldframe::temporal

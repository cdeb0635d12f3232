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

torch::Tensor there(const std::vector<std::uint64_t>& starts, const torch::Device& device) {
  const std::vector<std::int64_t> words(starts.begin(), starts.end());
  return to_device(torch::tensor(words, torch::kInt64), device);
}

}  // namespace

// mix_bits() of starts[r] + i − i mod 4: four draws from each word, the lowest bits first.
torch::Tensor drawn_bits(const torch::Tensor& starts, std::int64_t width) {
  torch::Tensor x = starts.unsqueeze(1) + torch::arange(0, width, kWordDraws, starts.options());
  fold(x, 30);
  x.mul_(static_cast<std::int64_t>(kMixFactors[0]));
  fold(x, 27);
  x.mul_(static_cast<std::int64_t>(kMixFactors[1]));
  fold(x, 31);
  return x.view(torch::kInt16).narrow(1, 0, width);
}

torch::Tensor mask_of(const torch::Tensor& bits, std::uint16_t threshold, float scale) {
  constexpr std::int64_t kLeast =
      -(1 << 15);  // numbers without a sign in the order of those with one
  return bits.bitwise_xor(kLeast).ge(threshold + kLeast).to(torch::kFloat32).mul_(scale);
}

torch::Tensor noise_table(float deviation, const torch::Device& device) {
  const std::span quantiles(normal_quantiles(), kQuantiles);
  return to_device(
      torch::tensor(std::vector<float>(quantiles.begin(), quantiles.end())).mul_(deviation),
      device);
}

torch::Tensor noise_of(const torch::Tensor& bits, const torch::Tensor& table) {
  const torch::Tensor chosen = bits.bitwise_and(std::int64_t{kQuantiles} - 1);
  return table.index_select(0, chosen.flatten().to(torch::kInt32)).view(bits.sizes());
}

torch::Tensor draw_mask(const std::vector<std::uint64_t>& starts, std::int64_t width,
                        std::uint16_t threshold, float scale, const torch::Device& device) {
  return mask_of(drawn_bits(there(starts, device), width), threshold, scale);
}

torch::Tensor draw_noise(const std::vector<std::uint64_t>& starts, std::int64_t width,
                         float deviation, const torch::Device& device) {
  return noise_of(drawn_bits(there(starts, device), width), noise_table(deviation, device));
}

}  // namespace coldframe::temporal

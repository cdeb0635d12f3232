#include "train_temporal/tune/recompute/eight_bits.h"

#include <algorithm>
#include <limits>

namespace coldframe::tune {
namespace {

// Changed in place from here on: an operator of two types would convert one as a whole besides.
torch::Tensor float_copy(const torch::Tensor& x) {
  return x.to(torch::kFloat32, /*non_blocking=*/false, /*copy=*/true);
}

}  // namespace

std::int64_t EightBits::group(std::int64_t width) {
  for (std::int64_t group = 128; group <= 512; ++group)
    if (width % group == 0) return group;
  return width;
}

std::int64_t EightBits::piece(bool cuda) {
  return cuda ? 1 << 24 : 1 << 19;  // 2 MiB stay in a processor's cache
}

template <class Take>
void EightBits::in_pieces(const Take& take) const {
  const std::int64_t groups = levels_.size(0);
  const std::int64_t most = std::max<std::int64_t>(1, piece(levels_.is_cuda()) / levels_.size(1));
  for (std::int64_t from = 0; from < groups; from += most)
    take(from, std::min(groups, from + most));
}

EightBits::EightBits(const torch::Tensor& x) : sizes_(x.sizes().vec()), type_(x.scalar_type()) {
  const torch::NoGradGuard no_grad;
  const torch::Tensor groups = x.detach().view({-1, group(x.size(-1))});
  least_ = groups.amin(1, /*keepdim=*/true).to(torch::kFloat32);
  step_ = groups.amax(1, /*keepdim=*/true).to(torch::kFloat32).sub_(least_).div_(255);
  step_.clamp_min_(std::numeric_limits<float>::min());  // equal values: level 0
  levels_ = torch::empty(groups.sizes(), groups.options().dtype(torch::kUInt8));
  in_pieces([&](std::int64_t from, std::int64_t to) {
    const torch::Tensor above =
        float_copy(groups.slice(0, from, to)).sub_(least_.slice(0, from, to));
    levels_.slice(0, from, to).copy_(above.div_(step_.slice(0, from, to)).round_());
  });
}

torch::Tensor EightBits::values() const {
  const torch::NoGradGuard no_grad;
  torch::Tensor values = torch::empty(levels_.sizes(), levels_.options().dtype(type_));
  in_pieces([&](std::int64_t from, std::int64_t to) {
    const torch::Tensor above =
        float_copy(levels_.slice(0, from, to)).mul_(step_.slice(0, from, to));
    values.slice(0, from, to).copy_(above.add_(least_.slice(0, from, to)));
  });
  return values.view(sizes_);
}

}  // namespace coldframe::tune

#include "train_temporal/models/mixed_precision.h"

#include <ATen/autocast_mode.h>

namespace coldframe::temporal {

Autocast::Autocast(const MixedPrecision& precision, const torch::Device& device)
    : active_(precision.active()),
      device_(device.type()),
      cached_(at::autocast::is_autocast_cache_enabled()) {
  if (!active_) return;
  at::autocast::set_autocast_cache_enabled(false);
  at::autocast::set_autocast_dtype(device_, precision.type);
  at::autocast::set_autocast_enabled(device_, true);
}

Autocast::~Autocast() {
  if (!active_) return;
  at::autocast::set_autocast_enabled(device_, false);
  at::autocast::set_autocast_cache_enabled(cached_);
}

torch::Tensor cast_once(const torch::Tensor& weight) {
  const torch::DeviceType device = weight.device().type();
  using namespace at::autocast;
  if (!is_autocast_available(device) || !is_autocast_enabled(device)) return weight;
  return weight.to(get_autocast_dtype(device));
}

torch::Tensor leave_mixed_precision(const torch::Tensor& outputs, const MixedPrecision& precision) {
  if (!precision.active()) return outputs;
  const torch::Tensor full = outputs.to(torch::kFloat32);
  const double scale = precision.gradient_scale;
  if (scale != 1 && full.requires_grad()) {
    full.register_hook([scale](const torch::Tensor& gradient) { return gradient * scale; });
  }
  return full;
}

}  // namespace coldframe::temporal

#include "extract/vit/gpu/layer_clock.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>

namespace coldframe::vit::gpu {

LayerClock::LayerClock(const EngineOptions& options) : options_(options) {
  moments_.push_back(now());
}

// Events of this flag keep times (c10/cuda/impl/CUDAGuardImpl.h: cudaEventDefault).
LayerClock::Moment LayerClock::now() const {
  const torch::Device& device = options_.device;
  Moment moment{c10::Event(device.type(), c10::EventFlag::BACKEND_DEFAULT), options_.cpu_time()};
  if (!device.is_cpu())
    moment.event.record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  return moment;
}

double LayerClock::seconds(const Moment& from, const Moment& to) const {
  if (options_.device.is_cpu()) return std::chrono::duration<double>(to.time - from.time).count();
  return from.event.elapsedTime(to.event) / 1000;
}

void LayerClock::mark(const std::string& layer, double operations, double bytes) {
  marks_.push_back({layer, operations, bytes, 0});
  moments_.push_back(now());
}

std::vector<LayerCost> LayerClock::read() const {
  if (!options_.device.is_cpu()) moments_.back().event.synchronize();
  std::vector<LayerCost> layers;
  for (std::size_t i = 0; i < marks_.size(); ++i) {
    auto layer = std::ranges::find(layers, marks_[i].layer, &LayerCost::layer);
    if (layer == layers.end()) layer = layers.insert(layer, {marks_[i].layer});
    layer->operations += marks_[i].operations;
    layer->bytes += marks_[i].bytes;
    layer->seconds += seconds(moments_[i], moments_[i + 1]);
  }
  return layers;
}

}  // namespace coldframe::vit::gpu

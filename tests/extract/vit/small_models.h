// Models of a few thousand weights, for comparisons of an engine with the readable ViT.
#pragma once

#include <cstdint>
#include <vector>

#include "extract/vit/random_weights.h"
#include "extract/vit/vision_transformer.h"

namespace coldframe::vit {

struct SmallModel {
  const char* name;
  Architecture architecture;
  std::int64_t image_size;

  VisionTransformer make() const {
    RandomSource source(3);
    return VisionTransformer(Scope(source), architecture, image_size);
  }
};

inline Architecture small_architecture(std::int64_t width, std::int64_t heads, std::int64_t patch,
                                       std::int64_t grid) {
  Architecture architecture;
  architecture.patch = patch;
  architecture.width = width;
  architecture.heads = heads;
  architecture.position_grid = grid;
  return architecture;
}

// Follows DINOv2 with registers.
inline Architecture with_registers(Architecture architecture) {
  architecture.registers = 4;
  architecture.prefix_positions = false;
  architecture.layer_scale = true;
  return architecture;
}

inline Architecture without_class_token(Architecture architecture) {
  architecture.class_token = architecture.qkv_bias = false;
  return architecture;
}

inline Architecture with_fc_norm(Architecture architecture) {
  architecture.norm = false;
  architecture.fc_norm = true;
  return architecture;
}

// Those that the architecture has.
inline std::vector<Pooling> poolings_of(const Architecture& architecture) {
  if (!architecture.class_token) return {Pooling::kMean};
  return {Pooling::kCls, Pooling::kMean, Pooling::kClsMean};
}

}  // namespace coldframe::vit

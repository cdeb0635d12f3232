// Models of a few thousand weights, for comparisons of an engine with the readable ViT.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "extract/vit/vit.h"
#include "extract/vit/weights.h"

namespace coldframe::vit {

struct SmallModel {
  std::string name;
  Architecture architecture;
  std::int64_t image_size;
  std::int64_t frames = 1;  // of a clip

  VisionTransformer make() const {
    RandomSource source(3);
    return VisionTransformer(Scope(source), architecture, image_size, 0, frames);
  }
  // Random images or clips.
  torch::Tensor inputs(std::int64_t batch) const {
    std::vector<std::int64_t> sizes{batch, 3, image_size, image_size};
    if (architecture.takes_clips()) sizes.insert(sizes.begin() + 1, frames);
    return torch::randn(sizes);
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

inline void with_final_norms(Architecture& architecture, bool norm, bool fc_norm) {
  architecture.norm = norm;
  architecture.fc_norm = fc_norm;
}

inline Architecture with_fc_norm(Architecture architecture) {
  with_final_norms(architecture, false, true);
  return architecture;
}

// Those that the architecture has.
inline std::vector<Pooling> poolings_of(const Architecture& architecture) {
  std::vector<Pooling> poolings{Pooling::kMean};
  if (architecture.class_token) poolings.insert(poolings.end(), {Pooling::kCls, Pooling::kClsMean});
  if (architecture.prefix_tokens() > 0) poolings.push_back(Pooling::kPrefixMean);
  if (architecture.registers > 0) poolings.push_back(Pooling::kRegisterMean);
  if (architecture.attention_pool) poolings.push_back(Pooling::kMap);
  if (architecture.takes_clips()) poolings.push_back(Pooling::kTime);
  return poolings;
}

}  // namespace coldframe::vit

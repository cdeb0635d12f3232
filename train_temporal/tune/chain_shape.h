// The ViT whose end is trained, the part of it that is, and how.
#pragma once

#include <cstdint>

#include "common/text/image_size.h"
#include "common/torch/tensor.h"
#include "extract/vit/architecture.h"
#include "extract/vit/pooling.h"

namespace coldframe::tune {

struct ChainShape {
  vit::Architecture architecture;
  ImageSize image_size;
  vit::FeatureOptions features;
  std::int64_t projected = 0;  // features that a projection gives, 0 without one
  std::int64_t cut = 0;        // the block whose input is given; 0: pixels
  std::int64_t blocks = 0;     // the last so many are trained
  std::int64_t lora_rank = 0;  // 0: themselves, with norm and projection; else matrices beside them
  double lora_alpha = 16;
  bool dropout = false;
  double drop_path = 0;                           // of the last block, see Chain
  torch::ScalarType precision = torch::kFloat32;  // or bfloat16, float16: autocast

  // Patch embedding, tokens and positions are trained, too.
  bool whole() const { return cut == 0 && blocks == architecture.depth && lora_rank == 0; }
  std::int64_t first_block() const { return architecture.depth - blocks; }
  std::int64_t tokens() const;         // of an image
  std::int64_t feature_count() const;  // of an image
  std::uint64_t token_bytes() const;   // of an image's tokens in float32
  // N² of all heads of an image in float32: what a kernel takes that writes attention out.
  std::uint64_t attention_bytes() const;
};

}  // namespace coldframe::tune

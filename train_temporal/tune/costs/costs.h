// The costs of each step of a ViT's trained part: bytes by following extract/vit/vit.h with sizes
// in place of numbers (tape.h), operator by operator as LibTorch runs it, and time by counting
// operations.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/text/image_size.h"
#include "extract/vit/architecture.h"
#include "extract/vit/pooling.h"
#include "train_temporal/tune/schedule/choose.h"
#include "train_temporal/tune/schedule/schedule.h"

namespace coldframe::tune {

// Names the ViT, the part of it that is trained, and the machine.
struct ChainShape {
  vit::Architecture architecture;
  ImageSize image_size;
  vit::FeatureOptions features;
  std::int64_t projected = 0;  // features that a projection gives, 0 without one
  std::int64_t cut = 0;        // the block whose input is given; 0: pixels
  std::int64_t blocks = 0;     // the last so many are trained
  std::int64_t lora_rank = 0;  // 0: themselves, with norm and projection; else matrices beside them
  bool dropout = false;
  bool eight_bits = false;  // graphs may keep what fc1 gives in 8 bits
  bool half = false;        // autocast to bfloat16 or float16
  bool cuda = false;
  int threads = 1;  // of LibTorch, on the CPU

  // Patch embedding, tokens and positions are trained, too.
  bool whole() const { return cut == 0 && blocks == architecture.depth && lora_rank == 0; }
  std::int64_t first_block() const { return architecture.depth - blocks; }
  // The trained steps' input is made for each chunk. Else all of it is there from the start:
  // pixels as the cache gives them, or what frozen steps before have given, computed once.
  bool input_by_chunk() const { return whole() ? cuda : cut > 0 && cut == first_block(); }
  std::int64_t tokens() const;         // of an image
  std::int64_t feature_count() const;  // of an image
  std::uint64_t token_bytes() const;   // of an image's tokens in float32
  // N² of all heads of an image in float32: what a kernel takes that writes attention out.
  std::uint64_t attention_bytes() const;
};

// LibTorch gives products of bfloat16 to oneDNN, which works in buffers, where the processor has
// instructions for them (AVX-512 and the like); elsewhere it computes in place, ten times slower.
bool bfloat16_products_have_buffers();

// Low-rank matrices go beside linear layers of this name, such as "blocks.3.attn.qkv".
bool has_low_rank(std::string_view layer);
// "patch embedding", "block 0", "block 1", …, "norm and pooling"
std::vector<std::string> step_names(const ChainShape& shape);
// The trained steps and their input, for a chunk of frames. Times are operations.
ChunkCost chunk_cost(const ChainShape& shape, std::int64_t frames);
// A training step of `frames` frames, without what its head takes.
StepTask step_task(const ChainShape& shape, std::int64_t frames);

}  // namespace coldframe::tune

// The first block of a ViT starts from these tokens, the same for every image.
#pragma once

#include "common/torch/tensor.h"
#include "extract/vit/vision_transformer.h"

namespace coldframe::vit {

// [prefix tokens + patches, width] float on the CPU: class token and registers, then the bias of
// the patch embedding, unless a norm follows it, for each of `patches` patches; positions are added
// to all that have one.
torch::Tensor starting_tokens(const VisionTransformerImpl& model, std::int64_t patches);

}  // namespace coldframe::vit

// A model's weights as the GPU's operations take them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "extract/vit/gpu/options.h"
#include "extract/vit/inference_weights.h"
#include "extract/vit/vit.h"

namespace coldframe::vit::gpu {

// Columns of patches are filled up to whole 32-byte sectors: tensor cores want aligned rows, and
// patches of 14 pixels have 588.
inline constexpr std::int64_t kPatchColumns = 16;

struct Turn {                  // of a block's queries and keys
  torch::Tensor sine, cosine;  // float, as AttentionWeights has them; undefined: none
};

struct DeviceWeights {
  // Copies float weights to the device; `from` is no longer needed then.
  DeviceWeights(const VisionTransformerImpl& from, const EngineOptions& options);

  // The layer whose matrix, or part of it, this is: "fc1".
  const std::string& label(const torch::Tensor& weight) const;

  // The matrices of blocks are of options.type, all else is float. Patch embedding and starting
  // tokens have shapes alone: those below stand for them.
  VisionTransformer model;
  torch::Tensor patch_embed;  // [width, pitch], of options.type
  torch::Tensor start;        // [tokens, width] float
  std::vector<Turn> turns;    // of each block

 private:
  DeviceWeights(const VisionTransformerImpl& from, const EngineOptions& options,
                const std::vector<AttentionWeights>& attentions);

  std::map<const void*, std::string> labels_;  // by where the matrix begins
};

}  // namespace coldframe::vit::gpu

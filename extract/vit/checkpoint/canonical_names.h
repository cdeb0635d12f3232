// A ViT's tensors under timm's names and in timm's shapes, whoever wrote them.
#pragma once

#include "common/torch/safetensors.h"
#include "extract/vit/published/published.h"

namespace coldframe::vit {

struct CanonicalWeights {
  StateDict tensors;
  std::string scheme;   // whose names they had
  bool asks = false;    // as in NamingScheme
  StoredNames names{};  // what else tells whose they are
  // A CLIP's projection of images, projection.weight [P, D] and projection.bias [P]; empty where
  // there is none.
  StateDict projection{};
  // Wavelengths of rotary positions, which facebookresearch/dinov3 stores; else undefined.
  torch::Tensor periods{};
};

// Finds whose names the tensors have (naming_schemes.h) and which of them are the image encoder's,
// renames these, and brings them into one form: queries, keys and values packed, with a bias of
// zeros where one of the three has none; gate and value of a gated perceptron packed; a
// distillation token as a register; a grey patch embedding spread over three channels. Leaves out
// what no feature depends on: classifiers, mask tokens, MAE's decoder, text encoders. DataError
// when no names are known, several encoders are found, or tensors of a form do not fit together.
CanonicalWeights canonical_names(StateDict tensors);

}  // namespace coldframe::vit

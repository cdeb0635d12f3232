// The one form of tensors that repositories keep in several.
#pragma once

#include "common/torch/safetensors.h"

namespace coldframe::vit {

// Changes tensors under timm's names as canonical_names() says. DataError names what does not fit.
void canonicalize(StateDict& tensors);

}  // namespace coldframe::vit

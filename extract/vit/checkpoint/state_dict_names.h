// What wrappers put before the names of a model's tensors.
#pragma once

#include "common/torch/safetensors.h"

namespace coldframe::vit {

// Removes what wrappers put before each name (`module.` of DistributedDataParallel, `_orig_mod.` of
// torch.compile, `model.`, `encoder.`, `backbone.`), again and again as long as every name has it.
// `backbone.` need not be before every name: what lies outside the backbone is a head and left out.
StateDict strip_prefixes(StateDict tensors);

}  // namespace coldframe::vit

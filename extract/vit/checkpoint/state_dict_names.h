// What wrappers put before the names of a model's tensors.
#pragma once

#include <string_view>

#include "common/torch/safetensors.h"

namespace coldframe::vit {

// Removes what wrappers put before each name (`module.` of DistributedDataParallel, `_orig_mod.` of
// torch.compile, `model.`, `encoder.`, `backbone.`), again and again as long as every name has it.
// `backbone.` need not be before every name: what lies outside the backbone is a head and left out.
StateDict strip_prefixes(StateDict tensors);
// The tensors whose names begin with `prefix`, without it; says how many others were left out.
StateDict inside(StateDict tensors, std::string_view prefix);

}  // namespace coldframe::vit

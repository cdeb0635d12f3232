// Turns the names that other code gives a ViT's tensors into timm's.
#pragma once

#include "common/torch/safetensors.h"

namespace coldframe::vit {

// Removes what wrappers put before each name (`module.` of DistributedDataParallel, `_orig_mod.` of
// torch.compile, `model.`, `encoder.`, `backbone.`), again and again as long as every name has it.
// `backbone.` need not be before every name: what lies outside the backbone is a head and left out.
StateDict strip_prefixes(StateDict tensors);

// The names of DINO, DINOv2, MAE and DeiT III checkpoints turned into timm's, as timm's own
// checkpoint_filter_fn does; what no feature depends on (a classifier, MAE's decoder) left out.
// DataError names a design that is not supported (SwiGLU, qk-norm, a distillation token, …).
StateDict checkpoint_filter(StateDict tensors);

}  // namespace coldframe::vit

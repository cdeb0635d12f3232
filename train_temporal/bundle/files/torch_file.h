// models/model.pt: tensors as torch.save writes a state dict, and torch.load(weights_only=True)
// reads it.
#pragma once

#include <filesystem>

#include "common/torch/safetensors.h"

namespace coldframe::bundle {

// Equal input gives equal bytes. DataError for a type of numbers that no model of ours has.
void write_torch_file(const std::filesystem::path& path, const StateDict& tensors);

}  // namespace coldframe::bundle

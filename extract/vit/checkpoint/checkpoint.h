// Weights from disk: safetensors and PyTorch's .pth, never executing anything that a file says.
#pragma once

#include <filesystem>

#include "common/torch/safetensors.h"

namespace coldframe::vit {

// Reads a checkpoint by its content (safetensors, .pth zip, .pth legacy): the tensors as stored.
// Nested `model`/`state_dict`/`teacher`/`student` and the like and the prefixes
// `module.`/`backbone.` are resolved. DataError: truncated, hostile or unknown content; a pickle
// that calls anything but what builds tensors is refused with the callable's name.
StateDict load_checkpoint(const std::filesystem::path& path);

// The same with the names as they are.
StateDict read_tensors(const std::filesystem::path& path);

}  // namespace coldframe::vit

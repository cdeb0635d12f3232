// Weights from disk: safetensors and PyTorch's .pth, never executing anything that a file says.
#pragma once

#include <torch/torch.h>

#include <filesystem>
#include <map>
#include <string>

namespace coldframe::vit {

using StateDict = std::map<std::string, torch::Tensor>;

// Reads a checkpoint by its content (safetensors, .pth zip, .pth legacy): the tensors as stored, on
// the CPU. Nested `model`/`state_dict`/`teacher`/`student` and the prefixes `module.`/`backbone.`
// are resolved. DataError: truncated, hostile or unknown content; a pickle that calls anything but
// what builds tensors is refused with the callable's name.
StateDict load_state_dict(const std::filesystem::path& path);

StateDict read_safetensors(const std::filesystem::path& path);
void write_safetensors(const std::filesystem::path& path, const StateDict& tensors,
                       const std::map<std::string, std::string>& metadata);
// The __metadata__ strings of a safetensors file.
std::map<std::string, std::string> safetensors_metadata(const std::filesystem::path& path);

}  // namespace coldframe::vit

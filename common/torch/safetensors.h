// safetensors files (github.com/huggingface/safetensors, README "Format"), with the reference
// implementation's full validation: header of at most 100 MB, sorted offsets without holes or
// overlap, checked products, exact file length, no duplicate keys.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "common/torch/tensor.h"

namespace coldframe {

// Names to tensors, on the CPU.
using StateDict = std::map<std::string, torch::Tensor>;

struct SafetensorsFile {
  StateDict tensors;
  std::map<std::string, std::string> metadata;  // "__metadata__"
};

bool is_safetensors(const std::filesystem::path& path);  // by content
SafetensorsFile read_safetensors(
    const std::filesystem::path& path);  // DataError names what is wrong

// Written atomically; equal input gives equal bytes.
void write_safetensors(const std::filesystem::path& path, const StateDict& tensors,
                       const std::map<std::string, std::string>& metadata);

// The same with an XXH3-128 over names, tensors and metadata as one more entry of the metadata,
// "xxh3", which must be there and hold: for what a single flipped bit would change unseen. The
// entry is not among those returned. DataError.
SafetensorsFile read_sealed_safetensors(const std::filesystem::path& path);
void write_sealed_safetensors(const std::filesystem::path& path, const StateDict& tensors,
                              std::map<std::string, std::string> metadata);

std::string shape_text(torch::IntArrayRef shape);  // "[2, 3]", as LibTorch writes it

}  // namespace coldframe

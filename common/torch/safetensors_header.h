// The JSON header of a safetensors file, checked as the reference implementation checks it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/torch/tensor.h"

namespace coldframe {

struct SafetensorsEntry {
  std::string name;
  torch::ScalarType dtype = torch::kFloat32;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0, end = 0;  // bytes, from the end of the header
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // in the order of their bytes
  std::map<std::string, std::string> metadata;
};

inline constexpr std::uint64_t kMaxSafetensorsHeader = 100'000'000;  // bytes, the reference's bound

// `data_bytes` is what the file holds behind the header; entries must cover it without a hole.
// DataError names `what` and the tensor.
SafetensorsHeader parse_safetensors_header(std::string_view json, std::uint64_t data_bytes,
                                           const std::string& what);

// "F32" for torch::kFloat32; DataError for a type that safetensors has no name for.
std::string safetensors_type_name(torch::ScalarType type);

}  // namespace coldframe

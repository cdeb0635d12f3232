// The number types of tensors in a .pth file.
#pragma once

#include <cstdint>
#include <string_view>

#include "common/torch/tensor.h"

namespace coldframe::vit {

struct ElementType {
  std::string_view storage;  // "FloatStorage"
  std::string_view dtype;    // "float32"
  std::uint64_t size;        // bytes an element
  // Undefined: known well enough to skip over, not to load.
  torch::ScalarType scalar = torch::ScalarType::Undefined;
};

// DataError names a type that is not known.
const ElementType& element_type_of_storage(std::string_view storage);
const ElementType& element_type_of_dtype(std::string_view dtype);

}  // namespace coldframe::vit

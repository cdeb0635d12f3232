// The memory that a forward pass computes in.
#pragma once

#include <algorithm>

#include "extract/vit/gpu/engine.h"

namespace coldframe::vit::gpu {

// A workspace serves batches of up to `batch` images.
struct Engine::Workspace {
  Workspace(const Engine& engine, std::int64_t batch) : capacity(batch) {
    const Architecture& shape = engine.architecture_;
    const auto options = torch::TensorOptions(engine.options_.device).dtype(engine.options_.type);
    const std::int64_t rows = batch * engine.tokens_, width = shape.width;
    const std::int64_t mlp_rows =
        engine.options_.mlp_rows > 0 ? std::min(rows, engine.options_.mlp_rows) : rows;
    patches = torch::zeros({batch * engine.patches_, engine.pitch_}, options);
    x = torch::empty({rows, width}, options.dtype(engine.options_.residual));
    normed = torch::empty({rows, width}, options);
    y = torch::empty({rows, width}, options);
    qkv = torch::empty({rows, 3 * width}, options);
    hidden = torch::empty({mlp_rows, engine.hidden_}, options);
    if (shape.gated_mlp) gates = torch::empty({mlp_rows, 2 * engine.hidden_}, options);
    const std::int64_t parts = engine.options_.pooling == Pooling::kClsMean ? 2 : 1;
    features = torch::empty({batch, parts * width}, options.dtype(torch::kFloat));
  }

  std::int64_t capacity;
  torch::Tensor patches;   // [batch · patches, pitch]
  torch::Tensor x;         // [rows, width] of `residual`, what the blocks add to
  torch::Tensor normed;    // [rows, width], what the matrix products read
  torch::Tensor y;         // [rows, width], what is added next
  torch::Tensor qkv;       // [rows, 3·width]
  torch::Tensor hidden;    // [mlp rows, hidden]
  torch::Tensor gates;     // [mlp rows, 2·hidden], gates and values; undefined without
  torch::Tensor features;  // [batch, D or 2·D] float
};

inline const float* floats(const torch::Tensor& tensor) {
  return tensor.defined() ? tensor.const_data_ptr<float>() : nullptr;
}

// Nothing for an activation that no kernel computes.
inline std::optional<cuda::Function> function_of(Activation activation) {
  constexpr std::pair<Activation, cuda::Function> kKnown[] = {
      {Activation::kGelu, cuda::Function::kGelu},
      {Activation::kGeluTanh, cuda::Function::kGeluTanh},
      {Activation::kQuickGelu, cuda::Function::kQuickGelu},
      {Activation::kSilu, cuda::Function::kSilu}};
  for (const auto& [name, function] : kKnown)
    if (name == activation) return function;
  return std::nullopt;
}

inline cuda::Element element_of(torch::ScalarType type) {
  if (type == torch::kBFloat16) return cuda::Element::kBf16;
  return type == torch::kHalf ? cuda::Element::kFp16 : cuda::Element::kFp32;
}

}  // namespace coldframe::vit::gpu

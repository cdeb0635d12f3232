// A linear layer whose weights lie as the kernels read them.
#pragma once

#include "common/torch/precision.h"
#include "common/torch/tensor.h"
#include "extract/vit/cpu/kernels/kernels.h"

namespace coldframe::vit::cpu {

struct PackedLinear {
  // weight [out, in], bias [out] or undefined, both float. `scale` [out] or undefined (LayerScale)
  // multiplies both. Weights are rounded to `type`, and to the kernels' own element in any case.
  PackedLinear(const Kernels& kernels, torch::ScalarType type, const torch::Tensor& weight,
               const torch::Tensor& bias, const torch::Tensor& scale = {});

  // The first layer of a gated perceptron, for the kernels' gates: weight [2·out, in] and bias have
  // the rows of gates, then those of values.
  static PackedLinear gated(const Kernels& kernels, torch::ScalarType type,
                            const torch::Tensor& weight, const torch::Tensor& bias);

  // in [rows, words] -> out, as `finish`, one of the kernels', leaves it. Rows of `out` are
  // out_stride of its elements apart. Panels are shared among threads, except inside a parallel
  // region.
  void apply(const void* in, std::int64_t rows, Epilogue finish, void* out,
             std::int64_t out_stride) const;

  const Kernels* kernels;
  std::int64_t in_words;     // of a row of the input
  std::int64_t out_width;    // features
  std::int64_t out_columns;  // of them that a panel gives: all of its columns, or half
  torch::Tensor panels;      // [⌈out / out_columns⌉, words, columns] int32
  torch::Tensor bias;        // [panels · columns], zeros where there is no feature
};

// A row's width in elements once it is filled up to whole words.
std::int64_t padded_width(const Kernels& kernels, std::int64_t width);

}  // namespace coldframe::vit::cpu

// A ViT with outlines in place of tensors (tape.h): what LibTorch's operators of
// extract/vit/torch_operations.h allocate, save and compute, for the arithmetic of
// extract/vit/layers.h and vit.h. Of a model only shapes and what requires a gradient are read.
#pragma once

#include "extract/vit/vit.h"
#include "train_temporal/tune/costs/costs.h"
#include "train_temporal/tune/costs/tape.h"
#include "train_temporal/tune/recompute/recomputing.h"
#include "train_temporal/tune/schedule/schedule.h"

namespace coldframe::tune {

class OutlineOperations {
 public:
  using Value = Outline;
  using Rotation = bool;  // is there one
  using Sizes = std::vector<std::int64_t>;

  OutlineOperations(Tape& tape, const ChainShape& shape, std::uint64_t frames, Keep keep);

  Outline cast(const Outline& x) { return tape_.cast(x, tape_.half() ? 2 : x.width); }
  // Weights and their casts have `weight`'s shape.
  Outline product(const Outline& x, const Outline& factors, const torch::Tensor& weight,
                  const torch::Tensor& bias);
  bool is_parameter(const Outline& x) const { return !x.memory; }
  template <class Compute>
  Outline again(Again kind, const std::vector<Outline>& inputs, const Compute& compute) {
    const Outline result = compute(*this, inputs);
    if (may_drop(kind, inputs, result))
      tape_.may_drop(result, inputs, [this, compute](const std::vector<Outline>& values) {
        return compute(*this, values);
      });
    return result;
  }

  void round(const Outline& x, std::int64_t width);
  Outline linear(const Outline& x, const torch::Tensor& weight, const torch::Tensor& bias);
  Outline norm(const Outline& x, const vit::NormImpl& layer);
  Outline norm_of_heads(const Outline& x, const vit::NormImpl& layer);
  Outline gelu(const Outline& x);
  Outline gelu_tanh(const Outline& x) { return gelu(x); }
  Outline silu(const Outline& x);
  Outline sigmoid(const Outline& x);
  Outline plus(const Outline& x, const Outline& y);
  Outline times(const Outline& x, const Outline& y);
  Outline times(const Outline& x, double) { return tape_.run({{x}, x.elements, x.width}); }
  Outline scaled(const Outline& x, const torch::Tensor& factors);
  Outline parameter(const torch::Tensor& tensor);
  std::vector<Outline> split(const Outline& x, const Sizes& sizes);
  std::vector<Outline> heads(const Outline& x, std::int64_t parts, std::int64_t heads);
  Outline rotate(const Outline& x, bool rotation);
  Outline attend(const Outline& q, const Outline& k, const Outline& v, std::int64_t head_width,
                 const torch::Tensor& bias);
  Outline merged(const Outline& x);
  Outline latent_query(const vit::AttentionPoolImpl& pool, const Outline& tokens);
  Outline cut_patches(const Outline& images, std::int64_t patch);
  Outline dropped(const Outline& x);

  Outline with_start(const Outline& patches, const vit::VisionTransformerImpl& model);
  Outline tokens(const Outline& x, std::int64_t from, std::int64_t to);
  Outline mean(const Outline& x, std::int64_t from, std::int64_t to);
  Outline vector(const Outline& x) { return x; }
  Outline joined(const std::vector<Outline>& values);
  Outline flattened(const Outline& x, std::int64_t) { return x; }

 private:
  Operator elementwise(const std::vector<Outline>& inputs, std::uint64_t width) const;
  bool may_drop(Again kind, const std::vector<Outline>& inputs, const Outline& result) const;
  Operator normed(const Outline& x, const vit::NormImpl& layer);

  Tape& tape_;
  const ChainShape& shape_;
  Keep keep_;
  std::uint64_t frames_, tokens_, prefix_, width_, threads_;
};

}  // namespace coldframe::tune

// Blocks that do several things side by side (timm's vision_transformer.py).
#pragma once

#include <torch/nn/modules/container/modulelist.h>

#include "extract/vit/layers/block.h"

namespace coldframe::vit {

// One of the attentions, or perceptrons, of a ParallelThings block: ls(layer(norm(x))).
template <class Layer>
struct BranchImpl : torch::nn::Module {
  BranchImpl(const Scope& scope, const char* name, const Architecture& architecture)
      : norm(scope / "norm", architecture.width, architecture), layer(scope / name, architecture) {
    register_module("norm", norm);
    register_module(name, layer);
    if (architecture.layer_scale)
      ls = register_module("ls", LayerScale(scope / "ls", architecture.width));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor result = layer->forward(norm->forward(x));
    return ls ? ls->forward(result) : result;
  }

  Norm norm;
  Layer layer;
  LayerScale ls{nullptr};
};

// Several attentions at once, then several perceptrons: x + Σ attns(x), then x + Σ ffns(x) (Touvron
// et al. 2022, arXiv:2203.09795).
struct ParallelThingsBlockImpl : AnyBlock {
  ParallelThingsBlockImpl(const Scope& scope, const Architecture& architecture);
  torch::Tensor forward_part(std::size_t part, const torch::Tensor& x, const Rotation& rotation,
                             const OutputDropout& dropout) override;

  torch::nn::ModuleList attns, ffns;
};
TORCH_MODULE(ParallelThingsBlock);

// Attention and perceptron at once, of one norm and one product: x + ls(attention + perceptron)
// (ViT-22B, Dehghani et al. 2023, arXiv:2302.05442).
struct ParallelScalingBlockImpl : AnyBlock {
  ParallelScalingBlockImpl(const Scope& scope, const Architecture& architecture);
  std::size_t parts() const override { return 1; }
  torch::Tensor forward_part(std::size_t part, const torch::Tensor& x, const Rotation& rotation,
                             const OutputDropout& dropout) override;

  std::int64_t heads, mlp_hidden;
  Activation activation;
  Norm in_norm;
  Linear in_proj;          // gives the perceptron's hidden layer, queries, keys and values
  torch::Tensor mlp_bias;  // where in_proj has none
  Norm q_norm{nullptr}, k_norm{nullptr};
  Linear attn_out_proj, mlp_out_proj;
  LayerScale ls{nullptr};
};
TORCH_MODULE(ParallelScalingBlock);

}  // namespace coldframe::vit

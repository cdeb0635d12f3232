// The Vision Transformer (Dosovitskiy et al. 2020, arXiv:2010.11929) as timm 1.0 builds it, of the
// layers of layers.h. Names of parameters are timm's. What an interpreter computes of it needs,
// beside the operations of layers.h:
//   with_start(patches, model)   class token and registers in front, and positions added
//   rotation(model, block, x)    of a block, for x
//   tokens(x, from, to)          [B, tokens, width] -> those tokens
//   mean(x, from, to)            [B, width], of those tokens
//   vector(x)                    [B, 1, width] -> [B, width]
//   joined(values)               side by side in dimension 1
//   flattened(x, tokens)         [B, tokens, width] -> [B, tokens · width]
//   kept(x)                      is told what enters options.cut
#pragma once

#include "common/torch/tensor.h"
#include "extract/vit/architecture.h"
#include "extract/vit/layers.h"
#include "extract/vit/pooling.h"
#include "extract/vit/torch_operations.h"

namespace coldframe::vit {

// x + ls(layer(norm(x))), or x + norm(layer(x)); the layer is an attention or a perceptron.
struct Branch {
  Norm norm{nullptr};
  Attention attention{nullptr};
  Mlp mlp{nullptr};
  LayerScale scale{nullptr};  // empty without layer scale
};

// Attention and perceptron at once, of one norm and one product: x + ls(attention + perceptron)
// (ViT-22B, Dehghani et al. 2023, arXiv:2302.05442; timm's ParallelScalingBlock).
struct ParallelScaling {
  std::int64_t heads = 0, head_width = 0, hidden_width = 0;
  Activation activation = Activation::kGelu;
  Norm in_norm{nullptr};
  Linear in_proj{nullptr};  // gives the perceptron's hidden layer, queries, keys and values
  torch::Tensor mlp_bias;   // where in_proj has none
  Norm q_norm{nullptr}, k_norm{nullptr};
  Linear attn_out_proj{nullptr}, mlp_out_proj{nullptr};
  LayerScale scale{nullptr};
};

// One transformer block. BlockKind::kPreNorm: x + ls1(attn(norm1(x))), then x + ls2(mlp(norm2(x)));
// kPostNorm, as timm's ResPostBlock and EvaBlockPostNorm: x + norm1(attn(x)), then x +
// norm2(mlp(x)); kParallelThings: several attentions at once, then several perceptrons, x + Σ
// attns(x), then x + Σ ffns(x) (Touvron et al. 2022, arXiv:2203.09795).
struct BlockImpl : torch::nn::Module {
  BlockImpl(const Scope& scope, const Architecture& architecture, std::int64_t number);

  // The number of sums that the block adds to the tokens. Each sum has its own dropout.
  std::size_t parts() const { return kind == BlockKind::kParallelScaling ? 1 : 2; }

  // [B, tokens, width] -> the same
  template <class Ops>
  ValueOf<Ops> forward_part(Ops& ops, std::size_t part, const ValueOf<Ops>& x,
                            const RotationOf<Ops>& rotation) const {
    if constexpr (requires { ops.block_part(part, x, rotation); }) {
      return ops.block_part(part, x, rotation);
    } else {
      if (kind == BlockKind::kParallelScaling) return forward_scaling(ops, x, rotation);
      ValueOf<Ops> result = x;
      for (const Branch& branch : branches[part]) {
        const bool behind_layer = kind == BlockKind::kPostNorm;
        const ValueOf<Ops> input = behind_layer ? x : branch.norm->forward(ops, x);
        const ValueOf<Ops> added =
            ops.dropped(branch.attention ? branch.attention->forward(ops, input, rotation)
                                         : branch.mlp->forward(ops, input));
        result = ops.plus(result, behind_layer ? branch.norm->forward(ops, added)
                                               : behind(ops, branch.scale, added));
      }
      return result;
    }
  }
  template <class Ops>
  ValueOf<Ops> forward(Ops& ops, const ValueOf<Ops>& x, const RotationOf<Ops>& rotation) const {
    ValueOf<Ops> result = x;
    for (std::size_t part = 0; part < parts(); ++part)
      result = forward_part(ops, part, result, rotation);
    return result;
  }

  BlockKind kind;
  std::int64_t number;              // from 0
  std::vector<Branch> branches[2];  // attentions, then perceptrons; one of each but for …Things
  ParallelScaling both;             // of …Scaling

 private:
  template <class Ops>
  ValueOf<Ops> forward_scaling(Ops& ops, const ValueOf<Ops>& x,
                               const RotationOf<Ops>& rotation) const {
    const std::int64_t width = both.heads * both.head_width;
    const auto parts = ops.split(both.in_proj->forward(ops, both.in_norm->forward(ops, x)),
                                 {both.hidden_width, width, width, width});
    const auto turned = [&](const ValueOf<Ops>& part, const Norm& norm) {
      const ValueOf<Ops> found = ops.heads(part, 1, both.heads)[0];
      return ops.rotate(norm ? ops.norm_of_heads(found, *norm) : found, rotation);
    };
    const ValueOf<Ops> q = turned(parts[1], both.q_norm), k = turned(parts[2], both.k_norm);
    const ValueOf<Ops> v = ops.heads(parts[3], 1, both.heads)[0];
    const ValueOf<Ops> attended = ops.merged(ops.attend(q, k, v, both.head_width, {}));
    const ValueOf<Ops> hidden =
        both.mlp_bias.defined() ? ops.plus(parts[0], ops.parameter(both.mlp_bias)) : parts[0];
    ValueOf<Ops> added = both.attn_out_proj->forward(ops, attended);
    added =
        ops.plus(added, both.mlp_out_proj->forward(ops, activate(ops, hidden, both.activation)));
    added = ops.dropped(added);
    return ops.plus(x, behind(ops, both.scale, added));
  }
  void make_branches(const Scope& scope, const Architecture& architecture);
  void make_things(const Scope& scope, const Architecture& architecture);
  void make_scaling(const Scope& scope, const Architecture& architecture);
};
TORCH_MODULE(Block);

struct VisionTransformerImpl : torch::nn::Module {
  // Images have sides that are multiples of the patch size. `projected`: features that a CLIP's
  // projection gives, 0 without one.
  VisionTransformerImpl(const Scope& scope, const Architecture& shape, const ImageSize& image_size,
                        std::int64_t projected = 0);

  template <class Ops>
  ValueOf<Ops> embed(Ops& ops, const ValueOf<Ops>& images) const {  // -> what enters block 0
    const ValueOf<Ops> x = ops.with_start(patch_embed->forward(ops, images), *this);
    return behind(ops, norm_pre, x);
  }

  // What a block gives -> features of it, [B, pooled_features()]. Pooling::kMap with attention_pool
  // only.
  template <class Ops>
  ValueOf<Ops> pooled(Ops& ops, const ValueOf<Ops>& x, Pooling pooling) const {
    return pooled_tokens(ops, behind(ops, norm, x), pooling);
  }
  template <class Ops>
  ValueOf<Ops> pooled_tokens(Ops& ops, const ValueOf<Ops>& tokens, Pooling pooling) const {
    const std::int64_t prefix = architecture.prefix_tokens(), all = prefix + grid.patches();
    if (pooling == Pooling::kMap) {
      const ValueOf<Ops> seen = architecture.pool_prefix ? tokens : ops.tokens(tokens, prefix, all);
      if constexpr (requires { ops.attention_pool(seen); })
        return ops.attention_pool(seen);
      else
        return ops.vector(attn_pool->forward(ops, seen));
    }
    std::vector<ValueOf<Ops>> pooled;  // each [B, width], or all tokens
    if (pooling == Pooling::kNone) pooled = {tokens};
    if (takes_class_token(pooling)) pooled.push_back(ops.vector(ops.tokens(tokens, 0, 1)));
    if (const auto range = averaged_tokens(pooling, architecture, grid.patches()))
      pooled.push_back(ops.mean(tokens, range->begin, range->end));
    if (fc_norm)
      for (ValueOf<Ops>& features : pooled) features = fc_norm->forward(ops, features);
    const ValueOf<Ops> features = ops.joined(pooled);
    return pooling == Pooling::kNone ? ops.flattened(features, all) : features;
  }

  // images [B, 3, H, W] -> [B, features], before the projection
  template <class Ops>
  ValueOf<Ops> features(Ops& ops, const ValueOf<Ops>& images, const FeatureOptions& options) const {
    const std::vector<std::int64_t> layers = layers_of(options, architecture);
    std::vector<ValueOf<Ops>> found;
    ValueOf<Ops> x = embed(ops, images);
    for (std::int64_t i = 0; i < layers.back(); ++i) {
      if (options.cut > 0 && i == options.cut) ops.kept(x);
      x = block(i).forward(ops, x, ops.rotation(*this, i, x));
      if (i + 1 == layers[found.size()]) found.push_back(pooled(ops, x, options.pooling));
    }
    return ops.joined(found);
  }
  // By LibTorch's operators: images -> features, and behind them what enters options.cut; the
  // tokens behind the last block and norm [B, tokens, width], and their features.
  torch::Tensor forward(const torch::Tensor& images, const FeatureOptions& options) const;
  torch::Tensor forward_features(const torch::Tensor& images) const;
  torch::Tensor forward_head(const torch::Tensor& tokens, Pooling pooling) const;

  const BlockImpl& block(std::int64_t index) const {
    return *blocks[static_cast<std::size_t>(index)];
  }
  Rotation rotation(std::int64_t index, const torch::Device& device) const;

  Architecture architecture;
  Grid grid;  // of the images' patches
  PatchEmbed patch_embed{nullptr};
  torch::Tensor cls_token;   // [1, 1, D], undefined without a class token
  torch::Tensor reg_token;   // [1, registers, D], undefined without registers
  torch::Tensor pos_embed;   // [1, (prefix) + patches, D], resampled to the image size
  torch::Tensor rope_freqs;  // timm's rope.freqs: of Rotary::kMixed, [2, depth, heads, d / 2]
  Norm norm_pre{nullptr};    // before the blocks (CLIP, Radford et al. 2021, arXiv:2103.00020)
  std::vector<Block> blocks;
  Norm norm{nullptr};     // before pooling,
  Norm fc_norm{nullptr};  // or behind it
  AttentionPool attn_pool{nullptr};
  Linear projection{nullptr};

 private:
  void make_tokens(const Scope& scope);
  void make_blocks(const Scope& scope);

  mutable std::vector<Rotation> rotations_;  // of each block, on the device of the last call
};
TORCH_MODULE(VisionTransformer);

}  // namespace coldframe::vit

// The layers of a ViT, as timm has them: each one's parameters, under timm's names, and its
// arithmetic, spelled once for all who interpret it. An interpreter has a type Value, what a tensor
// is to it, a type Rotation, and operations on values:
//   linear(x, weight, bias)    x [..., in] · weight [out, in]ᵀ + bias; bias undefined: none
//   norm(x, NormImpl), norm_of_heads(x, NormImpl)
//   gelu(x), gelu_tanh(x), silu(x), sigmoid(x)
//   plus(x, y), times(x, y), times(x, number), scaled(x, factors), parameter(tensor)
//   split(x, sizes)            parts of the last dimension
//   heads(x, n, h)             [B, tokens, n·width] -> n times [B, h, tokens, width / h]
//   rotate(x, Rotation)        of heads
//   attend(q, k, v, d, bias)   softmax(q·kᵀ / √d + bias)·v, [B, h, n, d] -> [B, h, n, v's d]
//   merged(x)                  [B, h, n, d] -> [B, n, h·d]
//   latent_query(AttentionPoolImpl, tokens)    [B, h, 1, d]
//   patches(images, PatchEmbedImpl)            [B, 3, H, W] -> [B, patches, width]
//   dropped(x)                 training's dropout
// and those that vit.h adds. torch_operations.h is LibTorch's; others are the engines of cpu/ and
// gpu/, and train_temporal/tune/costs. One that fuses has a larger operation of its own in their
// place: activated, gated, block_part, attention_pool.
#pragma once

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "common/torch/tensor.h"
#include "extract/vit/architecture.h"
#include "extract/vit/positions.h"
#include "extract/vit/weight_source.h"

namespace coldframe::vit {

template <class Ops>
using ValueOf = typename Ops::Value;

template <class Ops>
using RotationOf = typename Ops::Rotation;

// x behind a layer, or x where there is none.
template <class Ops, class Layer>
ValueOf<Ops> behind(Ops& ops, const Layer& layer, const ValueOf<Ops>& x) {
  return layer ? layer->forward(ops, x) : x;
}

// A layer with its parameters, registered with its owner; both by this name.
template <class Layer, class... Arguments>
Layer make(torch::nn::Module& owner, const Scope& scope, const std::string& name,
           const Arguments&... arguments) {
  return owner.register_module(name, Layer(scope / name, arguments...));
}
template <class Layer, class... Arguments>
Layer make_if(bool wanted, torch::nn::Module& owner, const Scope& scope, const std::string& name,
              const Arguments&... arguments) {
  return wanted ? make<Layer>(owner, scope, name, arguments...) : Layer(nullptr);
}
// A frozen parameter; undefined where it is not wanted.
inline torch::Tensor make_parameter(torch::nn::Module& owner, const Scope& scope,
                                    const std::string& name, torch::IntArrayRef shape,
                                    bool wanted = true) {
  if (!wanted) return {};
  return owner.register_parameter(name, scope.take(name, shape), /*requires_grad=*/false);
}

// The matrix product of every layer.
struct LinearImpl : torch::nn::Module {
  LinearImpl(const Scope& scope, std::int64_t in, std::int64_t out, bool with_bias = true)
      : weight(make_parameter(*this, scope, "weight", {out, in})),
        bias(make_parameter(*this, scope, "bias", {out}, with_bias)) {}

  template <class Ops>
  ValueOf<Ops> forward(Ops& ops, const ValueOf<Ops>& x) const {
    const ValueOf<Ops> product = ops.linear(x, weight, bias);
    if (!lora_down.defined()) return product;
    return ops.plus(product,
                    ops.times(ops.linear(ops.linear(x, lora_down, {}), lora_up, {}), lora_scale));
  }

  torch::Tensor weight, bias;
  // Trained beside a frozen weight: lora_scale · up · down is added to it (LoRA, Hu et al. 2021,
  // arXiv:2106.09685). down [rank, in], up [out, rank]; undefined: nothing is.
  torch::Tensor lora_down, lora_up;
  double lora_scale = 1;
};
TORCH_MODULE(Linear);

// The norm over the last dimension. LayerNorm (Ba et al. 2016, arXiv:1607.06450), or RMSNorm (Zhang
// and Sennrich 2019, arXiv:1910.07467), which neither centres nor has a bias. timm's epsilon is
// 1e-6 where a model does not say otherwise; torch's own default is 1e-5.
struct NormImpl : torch::nn::Module {
  NormImpl(const Scope& scope, std::int64_t width, const Architecture& shape)
      : epsilon(shape.norm_epsilon),
        weight(make_parameter(*this, scope, "weight", {width})),
        bias(make_parameter(*this, scope, "bias", {width}, !shape.rms_norm)) {}

  template <class Ops>
  ValueOf<Ops> forward(Ops& ops, const ValueOf<Ops>& x) const {
    return ops.norm(x, *this);
  }

  double epsilon;
  torch::Tensor weight, bias;  // no bias: RMSNorm
};
TORCH_MODULE(Norm);

// LayerScale (Touvron et al. 2021, arXiv:2103.17239): a learnt factor per feature at the end of
// each residual branch.
struct LayerScaleImpl : torch::nn::Module {
  LayerScaleImpl(const Scope& scope, std::int64_t width)
      : gamma(make_parameter(*this, scope, "gamma", {width})) {}

  template <class Ops>
  ValueOf<Ops> forward(Ops& ops, const ValueOf<Ops>& x) const {
    return ops.scaled(x, gamma);
  }

  torch::Tensor gamma;
};
TORCH_MODULE(LayerScale);

// GELU as erf states it or by tanh (Hendrycks and Gimpel 2016, arXiv:1606.08415), x·σ(1.702·x)
// (OpenAI's CLIP), or SiLU, x·σ(x).
template <class Ops>
ValueOf<Ops> activate(Ops& ops, const ValueOf<Ops>& x, Activation activation) {
  if constexpr (requires { ops.activated(x, activation); }) {
    return ops.activated(x, activation);
  } else {
    switch (activation) {
      case Activation::kGelu:
        return ops.gelu(x);
      case Activation::kGeluTanh:
        return ops.gelu_tanh(x);
      case Activation::kQuickGelu:
        return ops.times(x, ops.sigmoid(ops.times(x, 1.702)));
      case Activation::kSilu:
        return ops.silu(x);
    }
    return x;
  }
}

// act(g) · v of the halves of x
template <class Ops>
ValueOf<Ops> gate_halves(Ops& ops, const ValueOf<Ops>& x, std::int64_t width,
                         Activation activation) {
  if constexpr (requires { ops.gated(x, activation); }) {
    return ops.gated(x, activation);
  } else {
    const auto parts = ops.split(x, {width, width});
    return ops.times(activate(ops, parts[0], activation), parts[1]);
  }
}

// The perceptron of a block: fc2(norm(act(fc1(x)))), or with a gate fc2(norm(act(g) · v)), where g
// and v are the halves of fc1(x) (SwiGLU, Shazeer 2020, arXiv:2002.05202).
struct MlpImpl : torch::nn::Module {
  MlpImpl(const Scope& scope, const Architecture& shape)
      : activation(shape.activation),
        hidden_width(shape.mlp_hidden),
        gated(shape.gated_mlp),
        fc1(make<Linear>(*this, scope, "fc1", shape.width, (gated ? 2 : 1) * hidden_width,
                         shape.projection_bias)),
        fc2(make<Linear>(*this, scope, "fc2", hidden_width, shape.width, shape.projection_bias)),
        norm(make_if<Norm>(shape.mlp_norm, *this, scope, "norm", hidden_width, shape)) {}

  template <class Ops>
  ValueOf<Ops> forward(Ops& ops, const ValueOf<Ops>& x) const {
    ValueOf<Ops> hidden = fc1->forward(ops, x);
    hidden = gated ? gate_halves(ops, hidden, hidden_width, activation)
                   : activate(ops, hidden, activation);
    return fc2->forward(ops, behind(ops, norm, hidden));
  }

  Activation activation;
  std::int64_t hidden_width;
  bool gated;
  Linear fc1, fc2;
  Norm norm;  // with mlp_norm (sub-LN)
};
TORCH_MODULE(Mlp);

// A differential attention takes a second one away from the first λ times; their queries and keys
// are the halves of a head (Ye et al. 2024, arXiv:2410.05258; timm's DiffAttention).
struct Difference {
  double start;                  // of λ; deeper blocks take more away
  torch::Tensor q1, k1, q2, k2;  // [head width / 2], of λ
  Norm norm;                     // of each head's difference

  torch::Tensor lambda() const { return (q1 * k1).sum().exp() - (q2 * k2).sum().exp() + start; }
};

// Multi-head self-attention (Vaswani et al. 2017), softmax(q·kᵀ / √d) · v in each head.
struct AttentionImpl : torch::nn::Module {
  AttentionImpl(const Scope& scope, const Architecture& shape, std::int64_t block)
      : heads(shape.heads),
        head_width(shape.width / heads),
        query_width(shape.differential ? head_width / 2 : head_width),
        grid(shape.position_grid),
        qkv(make<Linear>(*this, scope, "qkv", shape.width, 3 * shape.width, shape.qkv_bias)),
        proj(make<Linear>(*this, scope, "proj", shape.width, shape.width, shape.projection_bias)),
        q_norm(make_if<Norm>(shape.qk_norm, *this, scope, "q_norm", query_width, shape)),
        k_norm(make_if<Norm>(shape.qk_norm, *this, scope, "k_norm", query_width, shape)),
        norm(make_if<Norm>(shape.attention_norm, *this, scope, "norm", shape.width, shape)) {
    if (shape.differential) make_difference(scope, shape, block);
    if (!shape.relative_positions) return;
    const std::int64_t side = 2 * grid - 1;
    relative_position_bias_table =
        make_parameter(*this, scope, "relative_position_bias_table", {side * side + 3, heads});
    if (!relative_position_bias_table.is_meta())
      relative = register_buffer("relative", relative_bias(relative_position_bias_table, grid));
  }

  template <class Ops>
  ValueOf<Ops> forward(Ops& ops, const ValueOf<Ops>& x, const RotationOf<Ops>& rotation) const {
    const auto parts = ops.heads(qkv->forward(ops, x), 3, heads);
    const auto turned = [&](const ValueOf<Ops>& part, const Norm& own) {
      return ops.rotate(own ? ops.norm_of_heads(part, *own) : part, rotation);
    };
    const auto attended = [&](const ValueOf<Ops>& queries, const ValueOf<Ops>& keys) {
      const ValueOf<Ops> q = turned(queries, q_norm), k = turned(keys, k_norm);
      return ops.attend(q, k, parts[2], query_width, bias());
    };
    const auto taken_away = [&] {
      const auto q = ops.split(parts[0], {query_width, query_width});
      const auto k = ops.split(parts[1], {query_width, query_width});
      const ValueOf<Ops> first = attended(q[0], k[0]);
      const ValueOf<Ops> rest =
          ops.plus(first, ops.scaled(attended(q[1], k[1]), -difference->lambda()));
      return ops.times(difference->norm->forward(ops, rest), 1 - difference->start);
    };
    const ValueOf<Ops> all = ops.merged(difference ? taken_away() : attended(parts[0], parts[1]));
    return proj->forward(ops, behind(ops, norm, all));
  }
  // Added to the scores, [heads, tokens, tokens]. A table that is trained changes with every step,
  // and its gradient goes through the bias. In a model of shapes alone the table stands for it.
  torch::Tensor bias() const {
    const torch::Tensor& table = relative_position_bias_table;
    if (!table.defined() || !table.requires_grad()) return relative;
    return table.is_meta() ? table : relative_bias(table, grid);
  }

  std::int64_t heads, head_width, query_width;
  std::int64_t grid;  // patches along the side of the images of relative positions
  Linear qkv, proj;
  Norm q_norm, k_norm;  // with qk_norm (Dehghani et al. 2023, arXiv:2302.05442)
  Norm norm;            // with attention_norm (sub-LN, Wang et al. 2022, arXiv:2210.06423)
  torch::Tensor relative_position_bias_table;  // with relative_positions
  torch::Tensor relative;                      // [heads, tokens, tokens], made of the table
  std::optional<Difference> difference;        // with `differential`

 private:
  void make_difference(const Scope& scope, Architecture shape, std::int64_t block) {
    const auto vector = [&](const char* name) {
      return make_parameter(*this, scope, name, {query_width});
    };
    shape.rms_norm = true;
    shape.norm_epsilon = 1e-5;
    difference = Difference{0.8 - 0.6 * std::exp(-0.3 * static_cast<double>(block)),
                            vector("lambda_q1"),
                            vector("lambda_k1"),
                            vector("lambda_q2"),
                            vector("lambda_k2"),
                            make<Norm>(*this, scope, "sub_norm", head_width, shape)};
  }
};
TORCH_MODULE(Attention);

// Attention pooling, SigLIP's MAP head: one learnt query attends to all tokens, and a perceptron
// follows (Zhai et al. 2022, arXiv:2106.04560; timm's AttentionPoolLatent).
struct AttentionPoolImpl : torch::nn::Module {
  AttentionPoolImpl(const Scope& scope, const Architecture& shape)
      : heads(shape.pool_heads),
        latent(make_parameter(*this, scope, "latent", {1, 1, shape.width})),
        q(make<Linear>(*this, scope, "q", shape.width, shape.width)),
        kv(make<Linear>(*this, scope, "kv", shape.width, 2 * shape.width)),
        proj(make<Linear>(*this, scope, "proj", shape.width, shape.width)),
        norm(make<Norm>(*this, scope, "norm", shape.width, shape)),
        mlp(make<Mlp>(*this, scope, "mlp", with_plain_mlp(shape))) {}

  template <class Ops>
  ValueOf<Ops> forward(Ops& ops, const ValueOf<Ops>& tokens) const {  // -> [B, 1, width]
    const auto parts = ops.heads(kv->forward(ops, tokens), 2, heads);
    const ValueOf<Ops> attended =
        proj->forward(ops, ops.merged(ops.attend(ops.latent_query(*this, tokens), parts[0],
                                                 parts[1], latent.size(2) / heads, {})));
    return ops.plus(attended, mlp->forward(ops, norm->forward(ops, attended)));
  }

  std::int64_t heads;
  torch::Tensor latent;  // [1, 1, width]
  Linear q, kv, proj;
  Norm norm;
  Mlp mlp;

 private:
  // The perceptron of the pooling is a plain one, whatever those of the blocks are.
  static Architecture with_plain_mlp(Architecture shape) {
    shape.mlp_hidden = shape.pool_hidden;
    shape.activation = shape.pool_activation;
    shape.gated_mlp = shape.mlp_norm = false;
    shape.projection_bias = true;
    return shape;
  }
};
TORCH_MODULE(AttentionPool);

// timm has a convolution whose stride is its kernel size; its weights keep that shape here.
struct PatchProjectionImpl : torch::nn::Module {
  PatchProjectionImpl(const Scope& scope, const Architecture& shape)
      : weight(make_parameter(*this, scope, "weight", {shape.width, 3, shape.patch, shape.patch})),
        bias(make_parameter(*this, scope, "bias", {shape.width}, shape.patch_bias)) {}

  torch::Tensor weight;  // [width, 3, patch, patch]
  torch::Tensor bias;    // [width], undefined without patch_bias
};
TORCH_MODULE(PatchProjection);

// Cuts an image into patches and maps each to a token.
struct PatchEmbedImpl : torch::nn::Module {
  PatchEmbedImpl(const Scope& scope, const Architecture& shape)
      : patch(shape.patch),
        proj(make<PatchProjection>(*this, scope, "proj", shape)),
        norm(make_if<Norm>(shape.patch_norm, *this, scope, "norm", shape.width, shape)) {}

  template <class Ops>
  ValueOf<Ops> forward(Ops& ops, const ValueOf<Ops>& images) const {
    return behind(ops, norm, ops.patches(images, *this));
  }

  std::int64_t patch;
  PatchProjection proj;
  Norm norm;  // with patch_norm (AIMv2, arXiv:2411.14402)
};
TORCH_MODULE(PatchEmbed);

}  // namespace coldframe::vit

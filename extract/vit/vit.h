// A vision transformer: its layers, described once over an interpreter's operations, and the model
// of them.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/text/text.h"
#include "common/torch/safetensors.h"
#include "common/torch/tensor.h"
#include "extract/vit/architecture.h"
#include "extract/vit/pooling.h"

namespace coldframe::vit {

// A layer's parameters come from a checkpoint, or from random numbers. Layers ask for each by its
// name and shape as they are built, so that nothing is allocated that the source does not have.

class WeightSource {
 public:
  virtual ~WeightSource() = default;
  // A float32 tensor of that shape on the CPU.
  virtual torch::Tensor take(const std::string& name, torch::IntArrayRef shape) = 0;
};

// A place in the tree of names: Scope(source) / "blocks" / 3 / "norm1".
class Scope {
 public:
  explicit Scope(WeightSource& source) : source_(&source) {}

  Scope operator/(const std::string& name) const { return Scope(*source_, prefix_ + name + "."); }
  Scope operator/(std::int64_t index) const { return *this / std::to_string(index); }
  torch::Tensor take(const std::string& name, torch::IntArrayRef shape) const {
    return source_->take(prefix_ + name, shape);
  }

 private:
  Scope(WeightSource& source, std::string prefix) : source_(&source), prefix_(std::move(prefix)) {}

  WeightSource* source_;
  std::string prefix_;
};

// The tensors of a checkpoint, each of which must be taken exactly once.
class StateDictSource : public WeightSource {
 public:
  explicit StateDictSource(StateDict tensors) : tensors_(std::move(tensors)) {}

  // Notes what is missing or of another shape, and returns an empty tensor of the shape.
  torch::Tensor take(const std::string& name, torch::IntArrayRef shape) override;
  // DataError names what was missing, misshapen or left over.
  void finish() const;

 private:
  StateDict tensors_;
  std::vector<std::string> problems_;
};

// Where patches lie in an image, and how a ViT learns of it: absolute, relative and rotary
// positions, as timm's layers/pos_embed.py, models/beit.py and layers/pos_embed_sincos.py.

// The places of an image's patches, or of a clip's, whose patches reach over several frames: a
// clip's tokens are in the order of steps, then rows, then columns.
struct Grid {
  std::int64_t rows = 0, columns = 0, steps = 1;

  constexpr Grid() = default;
  constexpr Grid(std::int64_t side) : rows(side), columns(side) {}
  constexpr Grid(const ImageSize& size, std::int64_t patch)
      : rows(size.height / patch), columns(size.width / patch) {}
  // Of a clip of `frames` frames, or of an image where the architecture takes images.
  Grid(const Architecture& architecture, const ImageSize& size, std::int64_t frames);

  constexpr std::int64_t patches() const { return steps * rows * columns; }
  bool operator==(const Grid&) const = default;
};

// The grid that pos_embed fits.
Grid position_grid(const Architecture& architecture);

// [1, tokens, width] float32: number 2i of token n is sin(n / 10000^(2i/width)), number 2i + 1 the
// cosine (Vaswani et al. 2017, arXiv:1706.03762). VideoMAE numbers all tokens of a clip in one row
// (arXiv:2203.12602, modeling_finetune.py).
torch::Tensor sinusoids(std::int64_t tokens, std::int64_t width);

// positions [1, prefix + grid², width] float32 -> [1, prefix + new_grid's patches, width]. The rows
// of the prefix tokens stay; the square of patches is resampled: bicubic and antialiased as timm's
// resample_abs_pos_embed does, or as the model in transformers does.
torch::Tensor resample_positions(const torch::Tensor& positions, std::int64_t prefix,
                                 std::int64_t grid, const Grid& new_grid,
                                 Resampling resampling = Resampling::kBicubicAntialiased);

// A learnt bias of each head for each difference of two patches' places (BEiT, Bao et al. 2021,
// arXiv:2106.08254). table [(2·grid - 1)² + 3, heads] -> [heads, 1 + grid², 1 + grid²], what is
// added to the product of query and key; the table's last rows are for class token to patch, patch
// to class token, and class token to itself.
torch::Tensor relative_bias(const torch::Tensor& table, std::int64_t grid);

// Rotary positions: before queries meet keys, pairs of their numbers are turned by angles that grow
// with the patch's place, so that their product depends on how far two patches lie apart (Su et al.
// 2021, arXiv:2104.09864). Sine and cosine are of each of a head's numbers: [patches, head width],
// or [heads, patches, head width] where heads turn differently; undefined without rotary positions.
struct Rotation {
  torch::Tensor sine, cosine;
  bool half = false;        // numbers i and i + d/2 are a pair; else 2i and 2i + 1
  std::int64_t prefix = 0;  // class token and registers come first and are not turned
  bool uneven = false;      // the two of a pair turn by different angles
};

// The rotation of each block for images of such a grid of patches. `frequencies` is the parameter
// of Rotary::kMixed, [2, depth, heads, head width / 2].
//   axial   half of the pairs turns with the row, half with the column, at wavelengths of
//           temperature^(4i/d) patches · 2π (EVA-02, arXiv:2303.11331; timm's eva.py; RoPE-ViT,
//           arXiv:2403.13298)
//   mixed   each pair turns with both, at learnt frequencies of each block and head (RoPE-ViT)
//   dinov3  as axial, but of places from -1 to 1 across the image whatever its size, at
//           wavelengths of temperature^(4i/d) (arXiv:2508.10104)
//   vjepa2  a third of the numbers (an even count, n) turns with the step, the next with the row,
//           the next with the column, the rest stays. Number i of a third has the wavelength of
//           temperature^(2·(i mod n/2)/n) · 2π, its pair is of neighbours all the same: the two of
//           a pair turn by different angles (V-JEPA 2, arXiv:2506.09985;
//           src/models/utils/modules.py, which names this an error that released weights are
//           trained with)
//   vjepa2_1
//           the same mended: the two of a pair turn alike, and rows and columns are scaled to
//           places from 0 to rotary_grid - 1 whatever the size
//           (app/vjepa_2_1/models/utils/modules.py)
std::vector<Rotation> rotations(const Architecture& architecture, const Grid& grid,
                                const torch::Tensor& frequencies);

// The same of one block of Rotary::kMixed.
Rotation mixed_rotation(const Architecture& architecture, const Grid& grid,
                        const torch::Tensor& frequencies, std::int64_t block);

// [head width / 4]: temperature^(4i/d), the wavelengths of axial and dinov3 in their own units.
torch::Tensor periods(const Architecture& architecture);

// x [B, heads, tokens, head width] -> the same
torch::Tensor rotate(const torch::Tensor& x, const Rotation& rotation);

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
//   patches(images, PatchEmbedImpl)            [B, 3, H, W], or of clips [B, T, 3, H, W] -> [B,
//                                              patches, width]
//   dropped(x)                 training's dropout
// and those that vit.h adds. TorchOperations is LibTorch's; others are the engines of cpu/ and
// gpu/. One that fuses has a larger operation of its own in their
// place: activated, gated, block_part, attention_pool.

template <class Ops>
using ValueOf = typename Ops::Value;

template <class Ops>
using RotationOf = typename Ops::Rotation;

// x after a layer, or x where there is none.
template <class Ops, class Layer>
ValueOf<Ops> apply_if_present(Ops& ops, const Layer& layer, const ValueOf<Ops>& x) {
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
  // Trained next to a frozen weight: lora_scale · up · down is added to it (LoRA, Hu et al. 2021,
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

// The MLP of a block: fc2(norm(act(fc1(x)))), or with a gate fc2(norm(act(g) · v)), where g
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
    return fc2->forward(ops, apply_if_present(ops, norm, hidden));
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
    return proj->forward(ops, apply_if_present(ops, norm, all));
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

// timm has a convolution whose stride is its kernel size; its weights keep that shape here.
struct PatchProjectionImpl : torch::nn::Module {
  PatchProjectionImpl(const Scope& scope, const Architecture& shape)
      : weight(make_parameter(*this, scope, "weight", kernel_of(shape))),
        bias(make_parameter(*this, scope, "bias", {shape.width}, shape.patch_bias)) {}

  torch::Tensor weight;  // [width, 3, patch, patch], of clips [width, 3, tubelet, patch, patch]
  torch::Tensor bias;    // [width], undefined without patch_bias

 private:
  static std::vector<std::int64_t> kernel_of(const Architecture& shape) {
    std::vector<std::int64_t> sizes{shape.width, 3, shape.patch, shape.patch};
    if (shape.takes_clips()) sizes.insert(sizes.begin() + 2, shape.tubelet);
    return sizes;
  }
};
TORCH_MODULE(PatchProjection);

// Cuts an image or a clip into patches and maps each to a token.
struct PatchEmbedImpl : torch::nn::Module {
  PatchEmbedImpl(const Scope& scope, const Architecture& shape)
      : patch(shape.patch),
        tubelet(shape.takes_clips() ? shape.tubelet : 1),
        proj(make<PatchProjection>(*this, scope, "proj", shape)),
        norm(make_if<Norm>(shape.patch_norm, *this, scope, "norm", shape.width, shape)) {}

  template <class Ops>
  ValueOf<Ops> forward(Ops& ops, const ValueOf<Ops>& images) const {
    return apply_if_present(ops, norm, ops.patches(images, *this));
  }

  std::int64_t patch, tubelet;  // pixels along a side, frames
  PatchProjection proj;
  Norm norm;  // with patch_norm (AIMv2, arXiv:2411.14402)
};
TORCH_MODULE(PatchEmbed);

// LibTorch's interpretation of a ViT: tensors, on any device, with gradients where they are asked
// for. Each operation is described here.

struct AttentionPoolImpl;
struct NormImpl;
struct PatchEmbedImpl;
struct VisionTransformerImpl;

struct TorchOperations {
  using Value = torch::Tensor;
  using Rotation = vit::Rotation;
  using Sizes = std::vector<std::int64_t>;

  std::function<Value(const Value&)> dropout{};  // of what a part's last product gives
  Value cut{};                                   // becomes what enters options.cut

  Value linear(const Value& x, const Value& weight, const Value& bias) const;
  Value norm(const Value& x, const NormImpl& layer) const;
  Value norm_of_heads(const Value& x, const NormImpl& layer) const { return norm(x, layer); }
  Value gelu(const Value& x) const { return at::gelu(x); }
  Value gelu_tanh(const Value& x) const { return at::gelu(x, "tanh"); }
  Value silu(const Value& x) const { return at::silu(x); }
  Value sigmoid(const Value& x) const { return at::sigmoid(x); }
  Value plus(const Value& x, const Value& y) const { return x + y; }
  Value times(const Value& x, const Value& y) const { return x * y; }
  Value times(const Value& x, double number) const { return x * number; }
  Value scaled(const Value& x, const Value& factors) const { return x * factors; }
  Value parameter(const Value& tensor) const { return tensor; }
  std::vector<Value> split(const Value& x, const Sizes& sizes) const;
  std::vector<Value> heads(const Value& x, std::int64_t parts, std::int64_t heads) const;
  Value rotate(const Value& x, const Rotation& rotation) const { return vit::rotate(x, rotation); }
  Value attend(const Value& q, const Value& k, const Value& v, std::int64_t head_width,
               const Value& bias) const;
  Value merged(const Value& x) const { return x.transpose(1, 2).flatten(2); }
  Value latent_query(const AttentionPoolImpl& pool, const Value& tokens) const;
  Value cut_patches(const Value& images, std::int64_t patch, std::int64_t tubelet = 1) const;
  Value patches(const Value& images, const PatchEmbedImpl& layer) const;
  Value dropped(const Value& x) const { return dropout ? dropout(x) : x; }

  Value with_start(const Value& patches, const VisionTransformerImpl& model) const;
  Rotation rotation(const VisionTransformerImpl& model, std::int64_t block, const Value& x) const;
  Value tokens(const Value& x, std::int64_t from, std::int64_t to) const {
    return x.slice(1, from, to);
  }
  Value mean(const Value& x, std::int64_t from, std::int64_t to) const {
    return x.slice(1, from, to).mean(1);
  }
  Value vector(const Value& x) const { return x.select(1, 0); }
  Value joined(const std::vector<Value>& values) const { return torch::cat(values, 1); }
  Value flattened(const Value& x, std::int64_t) const { return x.flatten(1); }
  void kept(const Value& x) { cut = x; }
};

// The Vision Transformer (Dosovitskiy et al. 2020, arXiv:2010.11929) as timm 1.0 builds it, of the
// layers above. Names of parameters are timm's. What an interpreter computes of it needs, besides
// the operations of the layers:
//   with_start(patches, model)   class token and registers in front, and positions added
//   rotation(model, block, x)    of a block, for x
//   tokens(x, from, to)          [B, tokens, width] -> those tokens
//   mean(x, from, to)            [B, width], of those tokens
//   vector(x)                    [B, 1, width] -> [B, width]
//   joined(values)               side by side in dimension 1
//   flattened(x, tokens)         [B, tokens, width] -> [B, tokens · width]
//   kept(x)                      is told what enters options.cut

// x + ls(layer(norm(x))), or x + norm(layer(x)); the layer is an attention or an MLP.
struct Branch {
  Norm norm{nullptr};
  Attention attention{nullptr};
  Mlp mlp{nullptr};
  LayerScale scale{nullptr};  // empty without layer scale
};

// Attention and MLP at once, of one norm and one product: x + ls(attention + MLP)
// (ViT-22B, Dehghani et al. 2023, arXiv:2302.05442; timm's ParallelScalingBlock).
struct ParallelScaling {
  std::int64_t heads = 0, head_width = 0, hidden_width = 0;
  Activation activation = Activation::kGelu;
  Norm in_norm{nullptr};
  Linear in_proj{nullptr};  // gives the MLP's hidden layer, queries, keys and values
  torch::Tensor mlp_bias;   // where in_proj has none
  Norm q_norm{nullptr}, k_norm{nullptr};
  Linear attn_out_proj{nullptr}, mlp_out_proj{nullptr};
  LayerScale scale{nullptr};
};

// One transformer block. BlockKind::kPreNorm: x + ls1(attn(norm1(x))), then x + ls2(mlp(norm2(x)));
// kPostNorm, as timm's ResPostBlock and EvaBlockPostNorm: x + norm1(attn(x)), then x +
// norm2(mlp(x)); kParallelThings: several attentions at once, then several MLPs, x + Σ
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
                                               : apply_if_present(ops, branch.scale, added));
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
  std::vector<Branch> branches[2];  // attentions, then MLPs; one of each but for …Things
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
    return ops.plus(x, apply_if_present(ops, both.scale, added));
  }
  void make_branches(const Scope& scope, const Architecture& architecture);
  void make_things(const Scope& scope, const Architecture& architecture);
  void make_scaling(const Scope& scope, const Architecture& architecture);
};
TORCH_MODULE(Block);

// Attention pooling: one learnt query attends to all tokens, and an MLP follows. SigLIP's MAP head
// (Zhai et al. 2022, arXiv:2106.04560; timm's AttentionPoolLatent), or with pool_residual V-JEPA's
// attentive pooler (arXiv:2404.08471; src/models/attentive_pooler.py), which has blocks in front of
// it, norms the tokens, adds to its query, and has no projection behind the attention.
struct AttentionPoolImpl : torch::nn::Module {
  AttentionPoolImpl(const Scope& scope, const Architecture& shape)
      : heads(shape.pool_heads),
        latent(make_parameter(*this, scope, "latent", {1, 1, shape.width})),
        norm1(make_if<Norm>(shape.pool_residual, *this, scope, "norm1", shape.width, shape)),
        q(make<Linear>(*this, scope, "q", shape.width, shape.width)),
        kv(make<Linear>(*this, scope, "kv", shape.width, 2 * shape.width)),
        proj(make_if<Linear>(!shape.pool_residual, *this, scope, "proj", shape.width, shape.width)),
        norm(make<Norm>(*this, scope, "norm", shape.width, shape)),
        mlp(make<Mlp>(*this, scope, "mlp", of_pooling(shape))) {
    make_blocks(scope, of_pooling(shape));
  }

  template <class Ops>
  ValueOf<Ops> forward(Ops& ops, const ValueOf<Ops>& tokens) const {  // -> [B, 1, width]
    ValueOf<Ops> seen = tokens;
    for (const Block& block : blocks) seen = block->forward(ops, seen, RotationOf<Ops>{});
    const auto parts = ops.heads(kv->forward(ops, apply_if_present(ops, norm1, seen)), 2, heads);
    ValueOf<Ops> attended = ops.merged(ops.attend(ops.latent_query(*this, tokens), parts[0],
                                                  parts[1], latent.size(2) / heads, {}));
    attended = apply_if_present(ops, proj, attended);
    if (norm1) attended = ops.plus(attended, ops.parameter(latent));
    return ops.plus(attended, mlp->forward(ops, norm->forward(ops, attended)));
  }

  std::int64_t heads;
  torch::Tensor latent;  // [1, 1, width]
  Norm norm1;            // with pool_residual
  Linear q, kv, proj;    // no proj with pool_residual
  Norm norm;
  Mlp mlp;
  std::vector<Block> blocks;  // of pool_depth

 private:
  void make_blocks(const Scope& scope, const Architecture& shape);
  // Its parts are plain ones, whatever those of the ViT's blocks are.
  static Architecture of_pooling(Architecture shape) {
    shape.mlp_hidden = shape.pool_hidden;
    shape.activation = shape.pool_activation;
    shape.gated_mlp = shape.mlp_norm = false;
    shape.projection_bias = true;
    if (!shape.pool_residual) return shape;
    shape.heads = shape.pool_heads;
    shape.block = BlockKind::kPreNorm;
    shape.qkv_bias = true;
    shape.layer_scale = shape.qk_norm = shape.attention_norm = false;
    shape.differential = shape.relative_positions = false;
    return shape;
  }
};
TORCH_MODULE(AttentionPool);

struct VisionTransformerImpl : torch::nn::Module {
  // Images have sides that are multiples of the patch size, and clips a multiple of the tubelet's
  // frames. `projected`: features that a CLIP's projection gives, 0 without one.
  VisionTransformerImpl(const Scope& scope, const Architecture& shape, const ImageSize& image_size,
                        std::int64_t projected = 0, std::int64_t frames = 1);

  template <class Ops>
  ValueOf<Ops> embed(Ops& ops, const ValueOf<Ops>& images) const {  // -> what enters block 0
    const ValueOf<Ops> x = ops.with_start(patch_embed->forward(ops, images), *this);
    return apply_if_present(ops, norm_pre, x);
  }

  // What a block gives -> features of it, [B, pooled_features()], of Pooling::kTime [B, steps ·
  // pooled_features()]. Pooling::kMap with attention_pool
  // only.
  template <class Ops>
  ValueOf<Ops> pooled(Ops& ops, const ValueOf<Ops>& x, Pooling pooling) const {
    return pooled_tokens(ops, apply_if_present(ops, norm, x), pooling);
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
    for (const TokenRange& range :
         averaged_tokens(pooling, architecture, grid.patches(), grid.steps))
      pooled.push_back(ops.mean(tokens, range.begin, range.end));
    if (fc_norm)
      for (ValueOf<Ops>& features : pooled) features = fc_norm->forward(ops, features);
    const ValueOf<Ops> features = ops.joined(pooled);
    return pooling == Pooling::kNone ? ops.flattened(features, all) : features;
  }

  // images [B, 3, H, W], or clips [B, T, 3, H, W] -> [B, features], before the projection
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
  // By LibTorch's operators: images -> features, and after them what enters options.cut; the
  // tokens after the last block and norm [B, tokens, width], and their features.
  torch::Tensor forward(const torch::Tensor& images, const FeatureOptions& options) const;
  torch::Tensor forward_features(const torch::Tensor& images) const;
  torch::Tensor forward_head(const torch::Tensor& tokens, Pooling pooling) const;

  const BlockImpl& block(std::int64_t index) const {
    return *blocks[static_cast<std::size_t>(index)];
  }
  Rotation rotation(std::int64_t index, const torch::Device& device) const;

  Architecture architecture;
  Grid grid;  // of the patches of an image or clip
  PatchEmbed patch_embed{nullptr};
  torch::Tensor cls_token;   // [1, 1, D], undefined without a class token
  torch::Tensor reg_token;   // [1, registers, D], undefined without registers
  torch::Tensor pos_embed;   // [1, (prefix) + patches, D], resampled to the image size, or computed
  torch::Tensor rope_freqs;  // timm's rope.freqs: of Rotary::kMixed, [2, depth, heads, d / 2]
  Norm norm_pre{nullptr};    // before the blocks (CLIP, Radford et al. 2021, arXiv:2103.00020)
  std::vector<Block> blocks;
  Norm norm{nullptr};     // before pooling,
  Norm fc_norm{nullptr};  // or after it
  AttentionPool attn_pool{nullptr};
  Linear projection{nullptr};

 private:
  void make_tokens(const Scope& scope);
  void make_blocks(const Scope& scope);

  mutable std::vector<Rotation> rotations_;  // of each block, on the device of the last call
};
TORCH_MODULE(VisionTransformer);

}  // namespace coldframe::vit

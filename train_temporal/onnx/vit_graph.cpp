#include "train_temporal/onnx/vit_graph.h"

#include <cmath>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "extract/vit/positions/starting_tokens.h"

namespace coldframe::onnx {
namespace {

using vit::Activation;
using vit::Pooling;

// One walk over the model's layers; each function is a layer of extract/vit/layers.
class VitGraph {
 public:
  VitGraph(vit::VisionTransformerImpl& model, const ImageSize& size,
           const vit::FeatureOptions& options)
      : model_(model),
        shape_(model.architecture),
        options_(options),
        size_(size),
        grid_(size, shape_.patch) {}

  Graph build() {
    const Value images =
        graph_.input("images", {"batch", std::int64_t{3}, size_.height, size_.width});
    Value x = embed(images);
    std::vector<Value> pooled;
    const auto layers = vit::layers_of(options_, shape_);
    for (std::int64_t i = 0; i < layers.back(); ++i) {
      x = block(x, i);
      if (i + 1 == layers[pooled.size()])
        pooled.push_back(pool(model_.norm ? norm(x, *model_.norm) : x));
    }
    Value features = pooled.size() == 1 ? pooled.front() : concatenated(pooled, 1);
    std::int64_t width = vit::pooled_features(options_.pooling, shape_, grid_.patches()) *
                         static_cast<std::int64_t>(layers.size());
    if (options_.projection) {
      features = linear(features, *model_.projection);
      width = model_.projection->weight.size(0);
    }
    graph_.output(features, "features", {"batch", width});
    return std::move(graph_);
  }

 private:
  Value concatenated(const std::vector<Value>& parts, std::int64_t axis) {
    return graph_.add("Concat", parts, {{"axis", axis}});
  }
  Value linear(const Value& x, const vit::LinearImpl& layer) {
    return graph_.linear(x, layer.weight, layer.bias);
  }
  Value plus(const Value& a, const Value& b) { return graph_.add("Add", {a, b}); }
  Value times(const Value& a, const Value& b) { return graph_.add("Mul", {a, b}); }

  Value norm(const Value& x, const vit::NormImpl& layer) {
    const auto epsilon = static_cast<float>(layer.epsilon);
    if (layer.bias.defined()) {
      return graph_.add("LayerNormalization",
                        {x, graph_.constant(layer.weight), graph_.constant(layer.bias)},
                        {{"axis", std::int64_t{-1}}, {"epsilon", epsilon}});
    }
    const Value squares = graph_.add("ReduceMean", {times(x, x)}, {{"axes", Integers{-1}}});
    const Value root = graph_.add("Sqrt", {plus(squares, graph_.constant(layer.epsilon))});
    return times(graph_.add("Div", {x, root}), graph_.constant(layer.weight));
  }

  Value activate(const Value& x, Activation activation) {
    switch (activation) {
      case Activation::kGelu:
        return graph_.gelu(x);
      case Activation::kGeluTanh: {
        const Value cube = times(times(x, x), times(x, graph_.constant(0.044715)));
        const Value inner = times(plus(x, cube), graph_.constant(std::sqrt(2 / M_PI)));
        const Value share = plus(graph_.add("Tanh", {inner}), graph_.constant(1.0));
        return times(times(x, graph_.constant(0.5)), share);
      }
      case Activation::kQuickGelu:
        return times(x, graph_.add("Sigmoid", {times(x, graph_.constant(1.702))}));
      case Activation::kSilu:
        return times(x, graph_.add("Sigmoid", {x}));
    }
    return {};
  }

  // Zero rows before the patches make room for class token and registers; what every image starts
  // from is one constant.
  Value embed(const Value& images) {
    const auto& patch = *model_.patch_embed;
    const std::int64_t side = shape_.patch, prefix = shape_.prefix_tokens();
    std::vector<Value> inputs = {images, graph_.constant(patch.proj->weight)};
    // Elsewhere the bias is in starting_tokens().
    if (patch.norm && patch.proj->bias.defined())
      inputs.push_back(graph_.constant(patch.proj->bias));
    Value x =
        graph_.add("Conv", inputs,
                   {{"kernel_shape", Integers{side, side}}, {"strides", Integers{side, side}}});
    x = graph_.transpose(graph_.reshape(x, {0, shape_.width, -1}), {0, 2, 1});
    if (patch.norm) x = norm(x, *patch.norm);
    if (prefix > 0) x = graph_.add("Pad", {x, graph_.constant(Integers{0, prefix, 0, 0, 0, 0})});
    x = plus(x, graph_.constant(vit::starting_tokens(model_, grid_.patches()).unsqueeze(0)));
    return model_.norm_pre ? norm(x, *model_.norm_pre) : x;
  }

  Value block(const Value& x, std::int64_t index) {
    auto& layer = dynamic_cast<vit::BlockImpl&>(model_.block(index));
    const vit::Rotation rotation = model_.rotation(index, torch::kCPU);
    Value result = x;
    for (const bool attends : {true, false}) {
      const vit::NormImpl& own = attends ? *layer.norm1 : *layer.norm2;
      const Value input = layer.norm_behind ? result : norm(result, own);
      Value added = attends ? attention(input, *layer.attn, rotation) : mlp(input, *layer.mlp);
      const vit::LayerScale& scale = attends ? layer.ls1 : layer.ls2;
      if (layer.norm_behind)
        added = norm(added, own);
      else if (scale)
        added = times(added, graph_.constant(scale->gamma));
      result = plus(result, added);
    }
    return result;
  }

  // x [B, h, tokens, d] turned by its places: x ∘ cos + (x with each pair (a, b) as (-b, a)) ∘ sin.
  // Tokens of the prefix turn by nothing; the signs are in the sine.
  Value rotated(const Value& x, const vit::Rotation& rotation) {
    if (!rotation.sine.defined()) return x;
    const std::int64_t width = rotation.sine.size(-1);
    const torch::Tensor at = torch::arange(width);
    const torch::Tensor first =  // of a pair
        rotation.half ? at < width / 2 : at.remainder(2) == 0;
    const torch::Tensor other =
        rotation.half ? (at + width / 2).remainder(width) : at + torch::where(first, 1, -1);
    const auto with_prefix = [&](const torch::Tensor& table, double value) {
      std::vector<std::int64_t> rows = table.sizes().vec();
      rows[rows.size() - 2] = rotation.prefix;
      return graph_.constant(torch::cat({torch::full(rows, value, torch::kFloat32), table}, -2));
    };
    const torch::Tensor sine = rotation.sine * torch::where(first, -1.0, 1.0).to(torch::kFloat32);
    const Value turned =
        graph_.add("Gather", {x, graph_.constant(other)}, {{"axis", std::int64_t{-1}}});
    return plus(times(x, with_prefix(rotation.cosine, 1)), times(turned, with_prefix(sine, 0)));
  }

  // q [B, h, n, d], k and v [B, h, tokens, d] -> [B, n, h·d]
  Value attend(const Value& q, const Value& k, const Value& v, std::int64_t head_width,
               const torch::Tensor& bias) {
    const double scale = 1 / std::sqrt(static_cast<double>(head_width));
    Value scores =
        graph_.add("MatMul", {times(q, graph_.constant(scale)), graph_.transpose(k, {0, 1, 3, 2})});
    if (bias.defined()) scores = plus(scores, graph_.constant(bias));
    const Value weights = graph_.add("Softmax", {scores}, {{"axis", std::int64_t{-1}}});
    return graph_.reshape(graph_.transpose(graph_.add("MatMul", {weights, v}), {0, 2, 1, 3}),
                          {0, -1, shape_.width});
  }

  // [B, tokens, parts·width] -> each part as [B, h, tokens, d]
  std::vector<Value> heads_of(const Value& x, std::int64_t parts, std::int64_t heads) {
    const Value split = graph_.transpose(
        graph_.reshape(x, {0, -1, parts, heads, shape_.width / heads}), {2, 0, 3, 1, 4});
    std::vector<Value> found;
    for (std::int64_t part = 0; part < parts; ++part) {
      const Value one = graph_.slice(split, 0, part, part + 1);
      found.push_back(graph_.add("Squeeze", {one, graph_.constant(Integers{0})}));
    }
    return found;
  }

  Value attention(const Value& x, const vit::AttentionImpl& layer, const vit::Rotation& rotation) {
    const auto parts = heads_of(linear(x, *layer.qkv), 3, layer.heads);
    const Value q = rotated(layer.q_norm ? norm(parts[0], *layer.q_norm) : parts[0], rotation);
    const Value k = rotated(layer.k_norm ? norm(parts[1], *layer.k_norm) : parts[1], rotation);
    const Value attended = attend(q, k, parts[2], shape_.width / layer.heads, layer.relative);
    return linear(layer.norm ? norm(attended, *layer.norm) : attended, *layer.proj);
  }

  Value mlp(const Value& x, const vit::MlpImpl& layer) {
    Value hidden = linear(x, *layer.fc1);
    if (layer.gated) {
      const auto halves = graph_.add("Split", {hidden}, {{"axis", std::int64_t{-1}}}, 2);
      hidden = times(activate(halves[0], layer.activation), halves[1]);
    } else {
      hidden = activate(hidden, layer.activation);
    }
    return linear(layer.norm ? norm(hidden, *layer.norm) : hidden, *layer.fc2);
  }

  Value attention_pool(const Value& tokens, vit::AttentionPoolImpl& layer) {
    const std::int64_t head_width = shape_.width / layer.heads;
    const torch::Tensor query =
        layer.q->forward(layer.latent).view({1, 1, layer.heads, head_width}).transpose(1, 2);
    const auto parts = heads_of(linear(tokens, *layer.kv), 2, layer.heads);
    const Value attended =
        linear(attend(graph_.constant(query), parts[0], parts[1], head_width, {}), *layer.proj);
    return graph_.reshape(plus(attended, mlp(norm(attended, *layer.norm), *layer.mlp)),
                          {-1, shape_.width});
  }

  Value mean_of(const Value& tokens, std::int64_t from, std::int64_t to) {
    return graph_.add("ReduceMean", {graph_.slice(tokens, 1, from, to)},
                      {{"axes", Integers{1}}, {"keepdims", std::int64_t{0}}});
  }

  Value pool(const Value& tokens) {
    const std::int64_t prefix = shape_.prefix_tokens(), all = prefix + grid_.patches();
    const Pooling pooling = options_.pooling;
    if (pooling == Pooling::kMap) {
      return attention_pool(shape_.pool_prefix ? tokens : graph_.slice(tokens, 1, prefix, all),
                            *model_.attn_pool);
    }
    std::vector<Value> pooled;
    if (pooling == Pooling::kNone) pooled = {tokens};
    if (vit::takes_class_token(pooling))
      pooled.push_back(graph_.reshape(graph_.slice(tokens, 1, 0, 1), {0, shape_.width}));
    if (const auto range = vit::averaged_tokens(pooling, shape_, grid_.patches()))
      pooled.push_back(mean_of(tokens, range->begin, range->end));
    if (model_.fc_norm)
      for (Value& features : pooled) features = norm(features, *model_.fc_norm);
    if (pooling == Pooling::kNone) return graph_.reshape(pooled.front(), {0, all * shape_.width});
    return pooled.size() == 1 ? pooled.front() : concatenated(pooled, 1);
  }

  vit::VisionTransformerImpl& model_;
  const vit::Architecture& shape_;
  const vit::FeatureOptions& options_;
  ImageSize size_;
  vit::Grid grid_;
  Graph graph_{"vit"};
};

}  // namespace

Graph vit_graph(vit::VisionTransformerImpl& model, const ImageSize& image_size,
                const vit::FeatureOptions& features) {
  if (const auto beyond = vit::beyond_engines(model.architecture)) {
    throw ConfigError(concat("--onnx does not know ", *beyond,
                             "; export another backbone, or use it from PyTorch"));
  }
  const torch::NoGradGuard no_grad;
  return VitGraph(model, image_size, features).build();
}

}  // namespace coldframe::onnx

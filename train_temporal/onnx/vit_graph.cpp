#include "train_temporal/onnx/vit_graph.h"

#include <algorithm>
#include <cmath>

#include "extract/vit/inference_weights.h"

namespace coldframe::onnx {
namespace {

// A ViT's arithmetic (extract/vit/layers.h and vit.h) as nodes of a graph.
class OnnxOperations {
 public:
  using Value = onnx::Value;
  using Rotation = vit::Rotation;

  OnnxOperations(Graph& graph, const vit::Architecture& shape) : graph_(graph), shape_(shape) {}

  Value linear(const Value& x, const torch::Tensor& weight, const torch::Tensor& bias) {
    return graph_.linear(x, weight, bias);
  }
  Value plus(const Value& a, const Value& b) { return graph_.add("Add", {a, b}); }
  Value times(const Value& a, const Value& b) { return graph_.add("Mul", {a, b}); }
  Value times(const Value& x, double number) { return times(x, graph_.constant(number)); }
  Value scaled(const Value& x, const torch::Tensor& by) { return times(x, parameter(by)); }
  Value parameter(const torch::Tensor& tensor) { return graph_.constant(tensor); }
  Value dropped(const Value& x) { return x; }

  Value norm(const Value& x, const vit::NormImpl& layer) {
    const auto epsilon = static_cast<float>(layer.epsilon);
    if (layer.bias.defined()) {
      return graph_.add("LayerNormalization", {x, parameter(layer.weight), parameter(layer.bias)},
                        {{"axis", std::int64_t{-1}}, {"epsilon", epsilon}});
    }
    const Value squares = graph_.add("ReduceMean", {times(x, x)}, {{"axes", Integers{-1}}});
    const Value root = graph_.add("Sqrt", {plus(squares, graph_.constant(layer.epsilon))});
    return times(graph_.add("Div", {x, root}), parameter(layer.weight));
  }
  Value norm_of_heads(const Value& x, const vit::NormImpl& layer) { return norm(x, layer); }

  Value gelu(const Value& x) { return graph_.gelu(x); }
  Value gelu_tanh(const Value& x) {
    const Value cube = times(times(x, x), times(x, 0.044715));
    const Value inner = times(plus(x, cube), graph_.constant(std::sqrt(2 / M_PI)));
    const Value share = plus(graph_.add("Tanh", {inner}), graph_.constant(1.0));
    return times(times(x, 0.5), share);
  }
  Value sigmoid(const Value& x) { return graph_.add("Sigmoid", {x}); }
  Value silu(const Value& x) { return times(x, sigmoid(x)); }

  std::vector<Value> split(const Value& x, const Integers& sizes) {
    std::vector<Value> inputs{x};
    const bool alike = std::ranges::all_of(sizes, [&](auto size) { return size == sizes[0]; });
    if (!alike) inputs.push_back(graph_.constant(sizes));
    return graph_.add("Split", inputs, {{"axis", std::int64_t{-1}}}, sizes.size());
  }

  std::vector<Value> heads(const Value& x, std::int64_t parts, std::int64_t heads) {
    const Value split = graph_.transpose(
        graph_.reshape(x, {0, -1, parts, heads, shape_.width / heads}), {2, 0, 3, 1, 4});
    std::vector<Value> found;
    for (std::int64_t part = 0; part < parts; ++part) {
      const Value one = graph_.slice(split, 0, part, part + 1);
      found.push_back(graph_.add("Squeeze", {one, graph_.constant(Integers{0})}));
    }
    return found;
  }

  // x ∘ cos + (x with each pair (a, b) as (-b, a)) ∘ sin. Tokens of the prefix turn by nothing; the
  // signs are in the sine.
  Value rotate(const Value& x, const Rotation& rotation) {
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

  Value attend(const Value& q, const Value& k, const Value& v, std::int64_t head_width,
               const torch::Tensor& bias) {
    const double scale = 1 / std::sqrt(static_cast<double>(head_width));
    Value scores = graph_.add("MatMul", {times(q, scale), graph_.transpose(k, {0, 1, 3, 2})});
    if (bias.defined()) scores = plus(scores, graph_.constant(bias));
    const Value weights = graph_.add("Softmax", {scores}, {{"axis", std::int64_t{-1}}});
    return graph_.add("MatMul", {weights, v});
  }
  Value merged(const Value& x) {
    return graph_.reshape(graph_.transpose(x, {0, 2, 1, 3}), {0, -1, shape_.width});
  }

  Value latent_query(const vit::AttentionPoolImpl& pool, const Value&) {
    const torch::Tensor query = vit::TorchOperations().latent_query(pool, pool.latent);
    return graph_.constant(query);
  }

  Value patches(const Value& images, const vit::PatchEmbedImpl& layer) {
    const std::int64_t side = layer.patch;
    std::vector<Value> inputs = {images, graph_.constant(layer.proj->weight)};
    // Elsewhere the bias is in starting_tokens().
    if (layer.norm && layer.proj->bias.defined()) inputs.push_back(parameter(layer.proj->bias));
    const Value x =
        graph_.add("Conv", inputs,
                   {{"kernel_shape", Integers{side, side}}, {"strides", Integers{side, side}}});
    return graph_.transpose(graph_.reshape(x, {0, shape_.width, -1}), {0, 2, 1});
  }

  // Zero rows before the patches make room for class token and registers; what every image starts
  // from is one constant.
  Value with_start(Value x, const vit::VisionTransformerImpl& model) {
    const std::int64_t prefix = shape_.prefix_tokens();
    if (prefix > 0) x = graph_.add("Pad", {x, graph_.constant(Integers{0, prefix, 0, 0, 0, 0})});
    return plus(x, graph_.constant(vit::starting_tokens(model, model.grid.patches()).unsqueeze(0)));
  }
  Rotation rotation(const vit::VisionTransformerImpl& model, std::int64_t block, const Value&) {
    return model.rotation(block, torch::kCPU);
  }

  Value tokens(const Value& x, std::int64_t from, std::int64_t to) {
    return graph_.slice(x, 1, from, to);
  }
  Value mean(const Value& x, std::int64_t from, std::int64_t to) {
    return graph_.add("ReduceMean", {tokens(x, from, to)},
                      {{"axes", Integers{1}}, {"keepdims", std::int64_t{0}}});
  }
  Value vector(const Value& x) { return graph_.reshape(x, {0, shape_.width}); }
  Value joined(const std::vector<Value>& values) {
    return values.size() == 1 ? values.front()
                              : graph_.add("Concat", values, {{"axis", std::int64_t{1}}});
  }
  Value flattened(const Value& x, std::int64_t tokens) {
    return graph_.reshape(x, {0, tokens * shape_.width});
  }
  void kept(const Value&) {}

 private:
  Graph& graph_;
  const vit::Architecture& shape_;
};

}  // namespace

Graph vit_graph(const vit::VisionTransformerImpl& model, const ImageSize& image_size,
                const vit::FeatureOptions& options) {
  const torch::NoGradGuard no_grad;
  const vit::Architecture& shape = model.architecture;
  Graph graph("vit");
  OnnxOperations ops(graph, shape);
  const Value images =
      graph.input("images", {"batch", std::int64_t{3}, image_size.height, image_size.width});
  Value features = model.features(ops, images, options);
  std::int64_t width = vit::pooled_features(options.pooling, shape, model.grid.patches()) *
                       static_cast<std::int64_t>(vit::layers_of(options, shape).size());
  if (options.projection) {
    features = model.projection->forward(ops, features);
    width = model.projection->weight.size(0);
  }
  graph.output(features, "features", {"batch", width});
  return graph;
}

}  // namespace coldframe::onnx

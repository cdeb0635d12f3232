#include "extract/vit/weights.h"

#include <cmath>
#include <string_view>

namespace coldframe::vit {

namespace {

// Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators".
constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15;

std::uint64_t splitmix64(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

std::uint64_t fnv1a(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

// Mean 0; the standard deviation of the sum of four uniform 16-bit numbers is 65536·√(4/12).
constexpr double kUnit = 1.0 / 37837.227;

double centred_sum(std::uint64_t word) {
  std::int64_t sum = -2 * 65535;
  for (int i = 0; i < 4; ++i) sum += static_cast<std::int64_t>(word >> (16 * i) & 0xffff);
  return static_cast<double>(sum);
}

struct Distribution {
  double mean, deviation;
};

Distribution distribution_of(std::string_view name, torch::IntArrayRef shape) {
  if (name.ends_with(".gamma")) return {1, 0.2};
  if (name.find("norm") != std::string_view::npos)
    return name.ends_with(".weight") ? Distribution{1, 0.2} : Distribution{0, 0.1};
  if (name == "cls_token" || name == "reg_token" || name == "pos_embed" ||
      name == "patch_embed.proj.bias")
    return {0, 0.5};
  if (name.ends_with(".bias") || name.find(".lambda_") != std::string_view::npos) return {0, 0.1};
  std::int64_t fan_in = 1;
  for (std::size_t i = 1; i < shape.size(); ++i) fan_in *= shape[i];
  return {0, 1 / std::sqrt(static_cast<double>(fan_in))};
}

}  // namespace

torch::Tensor RandomSource::take(const std::string& name, torch::IntArrayRef shape) {
  torch::Tensor tensor = torch::empty(shape, torch::kFloat32);
  const Distribution distribution = distribution_of(name, shape);
  const double step = distribution.deviation * kUnit;
  const std::uint64_t key = splitmix64(seed_ + kGolden) ^ fnv1a(name);
  float* out = tensor.data_ptr<float>();
  for (std::int64_t i = 0; i < tensor.numel(); ++i) {
    const std::uint64_t word = splitmix64(key + kGolden * static_cast<std::uint64_t>(i + 1));
    out[i] = static_cast<float>(distribution.mean + step * centred_sum(word));
  }
  return tensor;
}

namespace {

// Numbers of [..., d], or rows of [d, n], in the order 0, 2, 4, … 1, 3, 5, …
torch::Tensor evens_first(const torch::Tensor& x, std::int64_t dim) {
  const std::int64_t d = x.size(dim);
  return at::cat({x.slice(dim, 0, d, 2), x.slice(dim, 1, d, 2)}, dim);
}

// rows [3·width, …] of queries, keys and values: reorders queries and keys in each head.
torch::Tensor reordered(const torch::Tensor& rows, std::int64_t heads) {
  const std::int64_t width = rows.size(0) / 3;
  const torch::Tensor turned =
      evens_first(rows.slice(0, 0, 2 * width).view({2 * heads, width / heads, -1}), 1);
  return at::cat({turned.reshape_as(rows.slice(0, 0, 2 * width)), rows.slice(0, 2 * width)});
}

// Numbers [..., d] -> those of the first or of the second of each pair, [..., d / 2].
torch::Tensor of_pairs(const torch::Tensor& numbers, bool half, std::int64_t which = 0) {
  const std::int64_t d = numbers.size(-1);
  return (half ? numbers.slice(-1, which * d / 2, (which + 1) * d / 2)
               : numbers.slice(-1, which, d, 2))
      .contiguous();
}

}  // namespace

torch::Tensor starting_tokens(const VisionTransformerImpl& model, std::int64_t patches) {
  const std::int64_t prefix = model.architecture.prefix_tokens();
  torch::Tensor start = torch::zeros({prefix + patches, model.architecture.width});
  std::int64_t row = 0;
  for (const torch::Tensor& token : {model.cls_token, model.reg_token}) {
    if (!token.defined()) continue;
    start.narrow(0, row, token.size(1)).copy_(token[0]);
    row += token.size(1);
  }
  const torch::Tensor& bias = model.patch_embed->proj->bias;
  if (bias.defined() && !model.patch_embed->norm) start.narrow(0, prefix, patches).add_(bias);
  if (!model.pos_embed.defined()) return start;
  const torch::Tensor positions = model.pos_embed.detach().to(torch::kCPU, torch::kFloat32)[0];
  start.narrow(0, model.architecture.prefix_positions ? 0 : prefix, positions.size(0))
      .add_(positions);
  return start;
}

AttentionWeights attention_weights(const AttentionImpl& attention, const Rotation& rotation) {
  const auto detached = [](const torch::Tensor& tensor) {
    return tensor.defined() ? tensor.detach().to(torch::kCPU, torch::kFloat32) : tensor;
  };
  AttentionWeights weights;
  weights.qkv = detached(attention.qkv->weight);
  weights.qkv_bias = detached(attention.qkv->bias);
  if (attention.q_norm) {
    weights.q_norm = detached(attention.q_norm->weight);
    weights.q_norm_bias = detached(attention.q_norm->bias);
    weights.k_norm = detached(attention.k_norm->weight);
    weights.k_norm_bias = detached(attention.k_norm->bias);
  }
  if (!rotation.sine.defined()) return weights;
  weights.sine = of_pairs(detached(rotation.sine), rotation.half);
  weights.cosine = of_pairs(detached(rotation.cosine), rotation.half);
  if (rotation.uneven) {
    weights.second_sine = of_pairs(detached(rotation.sine), rotation.half, 1);
    weights.second_cosine = of_pairs(detached(rotation.cosine), rotation.half, 1);
  }
  if (rotation.half) return weights;
  for (torch::Tensor* const tensor : {&weights.qkv, &weights.qkv_bias})
    if (tensor->defined()) *tensor = reordered(*tensor, attention.heads);
  for (torch::Tensor* const tensor :
       {&weights.q_norm, &weights.q_norm_bias, &weights.k_norm, &weights.k_norm_bias})
    if (tensor->defined()) *tensor = evens_first(*tensor, 0);
  return weights;
}

}  // namespace coldframe::vit

#include "extract/vit/random_weights.h"

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

}  // namespace coldframe::vit

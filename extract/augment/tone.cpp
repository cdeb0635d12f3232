#include <algorithm>
#include <cmath>
#include <numbers>

#include "common/threads/counter_random.h"
#include "extract/augment/transform.h"

namespace coldframe::augment {

// ITU-R 601-2 luma in Pillow's fixed point (src/libImaging/Convert.c).
int mean_grey(const frames::Image& image) {
  std::uint64_t sum = 0;
  const std::size_t pixels = image.rgb.size() / 3;
  for (std::size_t i = 0; i < pixels; ++i) {
    const std::uint8_t* rgb = image.rgb.data() + i * 3;
    sum += (rgb[0] * 19595u + rgb[1] * 38470u + rgb[2] * 7471u + 0x8000u) >> 16;
  }
  return pixels == 0
             ? 0
             : static_cast<int>(static_cast<double>(sum) / static_cast<double>(pixels) + 0.5);
}

std::array<float, 256> tone_curve(const Transform& transform, int grey) {
  const auto clamp = [](double level) { return std::clamp(level, 0.0, 1.0); };
  const double pivot = clamp(grey / 255.0 * transform.brightness);
  std::array<float, 256> curve;
  for (std::size_t i = 0; i < curve.size(); ++i) {
    double level = clamp(static_cast<double>(i) / 255.0 * transform.brightness);
    level = clamp(pivot + (level - pivot) * transform.contrast);
    if (transform.gamma != 1) level = std::pow(level, transform.gamma);
    curve[i] = static_cast<float>(level * 255.0);
  }
  return curve;
}

// Box and Muller (1958): two normal numbers of two uniform ones.
std::vector<float> make_noise(const Transform& transform, std::size_t pixels) {
  CounterRandom random({transform.noise_key});
  const double deviation = 255 * transform.noise;
  std::vector<float> noise(pixels);
  for (std::size_t i = 0; i < pixels; i += 2) {
    const double radius = deviation * std::sqrt(-2 * std::log(1 - random.uniform()));
    const double angle = 2 * std::numbers::pi * random.uniform();
    noise[i] = static_cast<float>(radius * std::cos(angle));
    if (i + 1 < pixels) noise[i + 1] = static_cast<float>(radius * std::sin(angle));
  }
  return noise;
}

void apply_tone(const std::array<float, 256>& curve, std::span<const float> noise,
                std::span<std::uint8_t> rgb) {
  for (std::size_t i = 0; i < rgb.size(); ++i) {
    const float added = noise.empty() ? 0.0f : noise[i / 3];
    rgb[i] = static_cast<std::uint8_t>(std::clamp(curve[rgb[i]] + added + 0.5f, 0.0f, 255.0f));
  }
}

}  // namespace coldframe::augment

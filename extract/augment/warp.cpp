#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numbers>

#include "extract/augment/transform.h"

namespace coldframe::augment {
namespace {

using frames::Image;
using frames::Rect;

Image image_of_size(int width, int height) {
  return {width, height,
          std::vector<std::uint8_t>(static_cast<std::size_t>(width) *
                                    static_cast<std::size_t>(height) * 3)};
}

std::size_t offset_of(const Image& image, int x, int y) {
  return (static_cast<std::size_t>(y) * static_cast<std::size_t>(image.width) +
          static_cast<std::size_t>(x)) *
         3;
}

// The part `rect` of the image after its sides have been swapped.
Image copy_part(const Image& image, const Rect& rect, bool flip, bool vflip) {
  Image part = image_of_size(rect.width, rect.height);
  std::uint8_t* to = part.rgb.data();
  for (int y = 0; y < rect.height; ++y) {
    const int row = vflip ? image.height - 1 - (rect.y + y) : rect.y + y;
    if (!flip) {
      const std::size_t bytes = static_cast<std::size_t>(rect.width) * 3;
      std::memcpy(to, image.rgb.data() + offset_of(image, rect.x, row), bytes);
      to += bytes;
      continue;
    }
    const std::uint8_t* from = image.rgb.data() + offset_of(image, image.width - 1 - rect.x, row);
    for (int x = 0; x < rect.width; ++x, from -= 3, to += 3) std::copy_n(from, 3, to);
  }
  return part;
}

// As Python's round(value, 15).
double rounded(double value) {
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%.15f", value);
  return std::strtod(text.data(), nullptr);
}

// Maps the centre of an output pixel to a place in the input: x' = a·x + b·y + c, y' = d·x + e·y +
// f. Image.rotate of Pillow in its own order of operations.
struct Affine {
  double a, b, c, d, e, f;

  Affine(double degrees, int width, int height) {
    double turn = std::fmod(degrees, 360.0);
    if (turn < 0) turn += 360.0;
    const double angle = -(turn * (std::numbers::pi / 180.0));
    a = e = rounded(std::cos(angle));
    b = rounded(std::sin(angle));
    d = rounded(-std::sin(angle));
    const double x = width / 2.0, y = height / 2.0;
    c = a * -x + b * -y + 0.0 + x;
    f = d * -x + e * -y + 0.0 + y;
  }
};

// Linear interpolation as bilinear_filter32RGB of Pillow (src/libImaging/Geometry.c): the border
// pixels reach half a pixel beyond their centres, and the result is cut off, not rounded.
void interpolate(const Image& image, double x, double y, std::uint8_t* out) {
  x -= 0.5;
  y -= 0.5;
  const int left = static_cast<int>(std::floor(x)), top = static_cast<int>(std::floor(y));
  const double dx = x - left, dy = y - top;
  const int x0 = std::max(left, 0), x1 = std::min(left + 1, image.width - 1);
  const int y0 = std::max(top, 0), y1 = std::min(top + 1, image.height - 1);
  const std::uint8_t* above = image.rgb.data() + offset_of(image, 0, y0);
  const std::uint8_t* below = image.rgb.data() + offset_of(image, 0, y1);
  for (int channel = 0; channel < 3; ++channel) {
    const double a0 = above[x0 * 3 + channel], a1 = above[x1 * 3 + channel];
    const double b0 = below[x0 * 3 + channel], b1 = below[x1 * 3 + channel];
    const double upper = a0 + (a1 - a0) * dx, lower = b0 + (b1 - b0) * dx;
    out[channel] = static_cast<std::uint8_t>(upper + (lower - upper) * dy);
  }
}

// The part `rect` of the rotated image.
Image rotate_part(const Image& image, double degrees, const Rect& rect) {
  const Affine map(degrees, image.width, image.height);
  Image part = image_of_size(rect.width, rect.height);
  std::uint8_t* out = part.rgb.data();
  for (int row = 0; row < rect.height; ++row) {
    for (int column = 0; column < rect.width; ++column, out += 3) {
      const double at_x = rect.x + column + 0.5, at_y = rect.y + row + 0.5;
      const double x = map.a * at_x + map.b * at_y + map.c;
      const double y = map.d * at_x + map.e * at_y + map.f;
      if (x >= 0 && x < image.width && y >= 0 && y < image.height) interpolate(image, x, y, out);
    }
  }
  return part;
}

Rect crop_of(const Transform& transform, int width, int height) {
  const auto length = [&](int whole) {
    return std::clamp(static_cast<int>(std::nearbyint(whole * transform.side)), 1, whole);
  };
  const auto start = [](double place, int room) {
    return std::min(static_cast<int>(place * (room + 1.0)), room);
  };
  const int w = length(width), h = length(height);
  return {start(transform.x, width - w), start(transform.y, height - h), w, h};
}

}  // namespace

Image warp(const Transform& transform, const Image& image) {
  const Rect rect = crop_of(transform, image.width, image.height);
  if (transform.angle == 0) return copy_part(image, rect, transform.flip, transform.vflip);
  if (!transform.flip && !transform.vflip) return rotate_part(image, transform.angle, rect);
  const Rect whole{0, 0, image.width, image.height};
  return rotate_part(copy_part(image, whole, transform.flip, transform.vflip), transform.angle,
                     rect);
}

}  // namespace coldframe::augment

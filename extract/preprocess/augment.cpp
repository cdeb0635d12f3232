#include "extract/preprocess/augment.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numbers>
#include <opencv2/core.hpp>

#include "common/cli/error.h"
#include "common/files/fingerprint.h"
#include "common/text/text.h"
#include "common/threads/counter_random.h"

namespace coldframe::augment {

namespace {

// An augmentation whose strength is drawn from a range.
struct Ranged {
  const char* name;
  std::optional<Range> Augmentation::*member;
  Range (*around)(double value);  // what a single number means
  Range allowed;                  // both ends
  const char* expected;
};

constexpr double kLeast = 0.01, kMost = 10;

const std::array<Ranged, 6> kRanged{{
    {"rotate",
     &Augmentation::rotate,
     [](double v) {
       return Range{-v, v};
     },
     {-180, 180},
     "degrees, 0 to 180, or LOW:HIGH from -180 to 180"},
    {"scale",
     &Augmentation::scale,
     [](double v) {
       return Range{v, 1};
     },
     {kLeast, 1},
     "the min fraction of the frame's area that is kept, 0.01 to 1, or LOW:HIGH"},
    {"brightness",
     &Augmentation::brightness,
     [](double v) {
       return Range{1 - v, 1 + v};
     },
     {0, kMost},
     "V for factors from 1-V to 1+V, V from 0 to 1, or LOW:HIGH from 0 to 10"},
    {"contrast",
     &Augmentation::contrast,
     [](double v) {
       return Range{1 - v, 1 + v};
     },
     {0, kMost},
     "V for factors from 1-V to 1+V, V from 0 to 1, or LOW:HIGH from 0 to 10"},
    {"gamma",
     &Augmentation::gamma,
     [](double v) {
       return Range{1 / (1 + v), 1 + v};
     },
     {kLeast, kMost},
     "V for exponents from 1/(1+V) to 1+V, V from 0 to 9, or LOW:HIGH from 0.01 to 10"},
    {"noise",
     &Augmentation::noise,
     [](double v) {
       return Range{0, v};
     },
     {0, 1},
     "the largest deviation of levels in 0 to 1, e.g. 0.02, or LOW:HIGH"},
}};

struct Flip {
  const char* name;
  std::optional<double> Augmentation::*member;
};
const std::array<Flip, 2> kFlips{{{"flip", &Augmentation::flip}, {"vflip", &Augmentation::vflip}}};

[[noreturn]] void refuse(const std::string& word, const std::string& expected) {
  throw ConfigError(concat("--augment '", word, "': expected ", expected));
}

void set_flip(const Flip& flip, const std::string& word, const std::string& value,
              Augmentation& augmentation) {
  double probability = 0.5;
  if (word.find('=') != std::string::npos &&
      (!parse_double(value, probability) || !(probability > 0 && probability <= 1)))
    refuse(word, "a probability, more than 0 and at most 1");
  augmentation.*flip.member = probability;
}

void set_range(const Ranged& kind, const std::string& word, const std::string& value,
               Augmentation& augmentation) {
  const auto ends = split(value, ':');
  double first = 0, second = 0;
  if (ends.size() > 2 || !parse_double(trim(ends.front()), first) ||
      (ends.size() == 2 && !parse_double(trim(ends.back()), second)))
    refuse(word, kind.expected);
  // A negative number alone would turn its range around.
  const Range range = ends.size() == 2 ? Range{first, second} : kind.around(first);
  const bool valid = (ends.size() == 2 || first >= 0) && range.low <= range.high &&
                     range.low >= kind.allowed.low && range.high <= kind.allowed.high;
  if (!valid) refuse(word, kind.expected);
  augmentation.*kind.member = range;
}

[[noreturn]] void refuse_name(const std::string& name) {
  std::vector<std::string> names;
  for (const Flip& flip : kFlips) names.push_back(flip.name);
  for (const Ranged& kind : kRanged) names.push_back(kind.name);
  throw ConfigError(concat("--augment: there is no '", name, "'; choose from ", join(names, ", ")));
}

void set_one(const std::string& word, Augmentation& augmentation) {
  const std::size_t equals = word.find('=');
  const std::string name = trim(word.substr(0, equals));
  const std::string value = equals == std::string::npos ? "" : trim(word.substr(equals + 1));
  const auto twice = [&](bool given) {
    if (given) throw ConfigError(concat("--augment names ", name, " twice; give it once"));
  };
  for (const Flip& flip : kFlips) {
    if (name != flip.name) continue;
    twice((augmentation.*flip.member).has_value());
    return set_flip(flip, word, value, augmentation);
  }
  for (const Ranged& kind : kRanged) {
    if (name != kind.name) continue;
    twice((augmentation.*kind.member).has_value());
    return set_range(kind, word, value, augmentation);
  }
  refuse_name(name);
}

}  // namespace

void parse_list(const std::string& list, Augmentation& augmentation) {
  for (const std::string& word : split(list, ',')) set_one(trim(word), augmentation);
}

Json to_json(const Augmentation& augmentation) {
  Json json{{"seed", augmentation.seed}};
  for (const Flip& flip : kFlips)
    if (const auto& probability = augmentation.*flip.member) json[flip.name] = *probability;
  for (const Ranged& kind : kRanged)
    if (const auto& range = augmentation.*kind.member)
      json[kind.name] = Json::array({range->low, range->high});
  return json;
}

std::vector<std::string> view_names(const Augmentation& augmentation) {
  std::vector<std::string> names{"clean"};
  for (std::size_t view = 1; view <= augmentation.views; ++view)
    names.push_back(concat("view", view));
  return names;
}

namespace {

using frames::Image;
using frames::Rect;

// The last part of a key. What a number means never changes: caches depend on it.
enum class RandomStream : std::uint64_t {
  kFlip = 1,
  kVflip,
  kRotate,
  kScale,
  kPlace,
  kBrightness,
  kContrast,
  kGamma,
  kNoise,
  kNoisePattern,
};

double between(const Range& range, double share) {
  return range.low + (range.high - range.low) * share;
}

Image image_of_size(int width, int height) {
  return {width, height,
          std::vector<std::uint8_t>(static_cast<std::size_t>(width) *
                                    static_cast<std::size_t>(height) * 3)};
}

cv::Mat3b mat_of(const Image& image) {
  auto* pixels = const_cast<std::uint8_t*>(image.rgb.data());
  return {image.height, image.width, reinterpret_cast<cv::Vec3b*>(pixels)};
}

// The part `rect` of the image after its sides have been swapped.
Image copy_part(const Image& image, Rect rect, bool flip, bool vflip) {
  if (flip) rect.x = image.width - rect.x - rect.width;
  if (vflip) rect.y = image.height - rect.y - rect.height;
  Image part = image_of_size(rect.width, rect.height);
  cv::Mat3b to = mat_of(part);
  const cv::Mat3b from = mat_of(image)({rect.x, rect.y, rect.width, rect.height});
  if (flip || vflip)
    cv::flip(from, to, flip && vflip ? -1 : flip ? 1 : 0);
  else
    from.copyTo(to);
  return part;
}

// Rounds as Python's round(value, 15) does.
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
// pixels reach half a pixel beyond their centres, and the result is truncated, not rounded.
void interpolate(const cv::Mat3b& image, double x, double y, std::uint8_t* out) {
  x -= 0.5;
  y -= 0.5;
  const int left = static_cast<int>(std::floor(x)), top = static_cast<int>(std::floor(y));
  const double dx = x - left, dy = y - top;
  const int x0 = std::max(left, 0), x1 = std::min(left + 1, image.cols - 1);
  const int y0 = std::max(top, 0), y1 = std::min(top + 1, image.rows - 1);
  const cv::Vec3b *above = image[y0], *below = image[y1];
  for (int channel = 0; channel < 3; ++channel) {
    const double a0 = above[x0][channel], a1 = above[x1][channel];
    const double b0 = below[x0][channel], b1 = below[x1][channel];
    const double upper = a0 + (a1 - a0) * dx, lower = b0 + (b1 - b0) * dx;
    out[channel] = static_cast<std::uint8_t>(upper + (lower - upper) * dy);
  }
}

// The part `rect` of the rotated image.
Image rotate_part(const Image& image, double degrees, const Rect& rect) {
  const Affine map(degrees, image.width, image.height);
  const cv::Mat3b pixels = mat_of(image);
  Image part = image_of_size(rect.width, rect.height);
  std::uint8_t* out = part.rgb.data();
  for (int row = 0; row < rect.height; ++row) {
    for (int column = 0; column < rect.width; ++column, out += 3) {
      const double at_x = rect.x + column + 0.5, at_y = rect.y + row + 0.5;
      const double x = map.a * at_x + map.b * at_y + map.c;
      const double y = map.d * at_x + map.e * at_y + map.f;
      if (x >= 0 && x < image.width && y >= 0 && y < image.height) interpolate(pixels, x, y, out);
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

Transform draw_transform(const Augmentation& augmentation, const std::string& exam,
                         std::size_t view) {
  const std::uint64_t exam_key = xxh3_64(std::as_bytes(std::span(exam)));
  const auto random = [&](RandomStream part) {
    return CounterRandom({augmentation.seed, exam_key, view, static_cast<std::uint64_t>(part)});
  };
  const auto draw = [&](RandomStream part) { return random(part).uniform(); };
  Transform result;
  if (augmentation.flip) result.flip = draw(RandomStream::kFlip) < *augmentation.flip;
  if (augmentation.vflip) result.vflip = draw(RandomStream::kVflip) < *augmentation.vflip;
  if (augmentation.rotate)
    result.angle = between(*augmentation.rotate, draw(RandomStream::kRotate));
  if (augmentation.scale) {
    result.side = std::sqrt(between(*augmentation.scale, draw(RandomStream::kScale)));
    CounterRandom place = random(RandomStream::kPlace);
    result.x = place.uniform();
    result.y = place.uniform();
  }
  if (augmentation.brightness)
    result.brightness = between(*augmentation.brightness, draw(RandomStream::kBrightness));
  if (augmentation.contrast)
    result.contrast = between(*augmentation.contrast, draw(RandomStream::kContrast));
  if (augmentation.gamma) {
    const auto [low, high] = *augmentation.gamma;
    result.gamma = std::exp(between({std::log(low), std::log(high)}, draw(RandomStream::kGamma)));
  }
  if (augmentation.noise) result.noise = between(*augmentation.noise, draw(RandomStream::kNoise));
  result.noise_key = random(RandomStream::kNoisePattern).next();
  return result;
}

Image warp(const Transform& transform, const Image& image) {
  const Rect rect = crop_of(transform, image.width, image.height);
  if (transform.angle == 0) return copy_part(image, rect, transform.flip, transform.vflip);
  if (!transform.flip && !transform.vflip) return rotate_part(image, transform.angle, rect);
  const Rect whole{0, 0, image.width, image.height};
  return rotate_part(copy_part(image, whole, transform.flip, transform.vflip), transform.angle,
                     rect);
}

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

namespace {

bool changes_levels(const Transform& transform) {
  return transform.brightness != 1 || transform.contrast != 1 || transform.gamma != 1 ||
         transform.noise > 0;
}

}  // namespace

ExamViews::ExamViews(const Augmentation& augmentation, const std::string& exam) {
  for (std::size_t view = 1; view <= augmentation.views; ++view)
    views_.push_back({draw_transform(augmentation, exam, view), std::nullopt, {}});
}

frames::Image ExamViews::warp(std::size_t view, const frames::Image& image) {
  if (!grey_) grey_ = mean_grey(image);
  return augment::warp(views_.at(view - 1).transform, image);
}

void ExamViews::finish(std::size_t view, std::span<std::uint8_t> rgb) {
  View& chosen = views_.at(view - 1);
  if (!changes_levels(chosen.transform)) return;
  if (!chosen.curve) chosen.curve = tone_curve(chosen.transform, grey_.value_or(0));
  if (chosen.transform.noise > 0 && chosen.noise.empty())
    chosen.noise = make_noise(chosen.transform, rgb.size() / 3);
  apply_tone(*chosen.curve, chosen.noise, rgb);
}

}  // namespace coldframe::augment

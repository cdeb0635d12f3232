// --augment: the random transforms of an exam's views and their ranges.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/files/json.h"
#include "extract/decode/frame.h"

namespace coldframe::augment {

// The default transforms of `--views K`.
inline constexpr const char* kDefaultList =
    "flip,rotate=10,scale=0.8:1,brightness=0.2,contrast=0.2,gamma=0.2,noise=0.02";

struct Range {
  double low = 0, high = 0;

  bool operator==(const Range&) const = default;
};

// nullopt: not requested. Parameters are defined as in torchvision if it has the operation.
struct Augmentation {
  std::size_t views = 0;  // besides `clean`
  std::uint64_t seed = 0;
  std::optional<double> flip, vflip;  // probability of a horizontal, a vertical flip
  std::optional<Range> rotate;        // degrees counter-clockwise about the centre
  std::optional<Range> scale;       // fraction of the area kept by a crop of the same aspect ratio
  std::optional<Range> brightness;  // factor on the levels
  std::optional<Range> contrast;    // factor on their distance from the exam's mean grey
  std::optional<Range> gamma;       // level^gamma of levels in 0 … 1; drawn on a log scale
  std::optional<Range> noise;       // std of Gaussian noise, for levels in 0 … 1
};

// Parses a list into `augmentation`: "flip,rotate=10,scale=0.8:1". A single number V spans −V … V
// degrees (rotate), V … 1 (scale), 1 − V … 1 + V (brightness, contrast), 1 / (1 + V) … 1 + V
// (gamma), 0 … V (noise), or is the probability (flip, vflip; default 0.5). ConfigError.
void parse_list(const std::string& list, Augmentation& augmentation);

// The recipe's entry: the seed and the requested transforms.
Json to_json(const Augmentation& augmentation);

// "clean", "view1" … "viewK".
std::vector<std::string> view_names(const Augmentation& augmentation);

// One random transform, as drawn for a view of an exam and applied to all of its frames.

struct Transform {
  bool flip = false, vflip = false;
  double angle = 0;     // degrees counter-clockwise
  double side = 1;      // side of the crop as a fraction of the frame's
  double x = 0, y = 0;  // position of the crop: 0 left or top … 1 right or bottom
  double brightness = 1, contrast = 1, gamma = 1;
  double noise = 0;  // std, for levels in 0 … 1
  std::uint64_t noise_key = 0;
};

// Depends only on the seed, the exam's id and the view's number (1 … K). Each component is
// independent of which others are requested: the same views are flipped with or without `noise`.
Transform draw_transform(const Augmentation& augmentation, const std::string& exam,
                         std::size_t view);

// Flips, then rotates, then crops. Rotation keeps the frame's size, interpolates linearly and fills
// with black, bit-identical to Pillow's Image.rotate(angle, BILINEAR).
frames::Image warp(const Transform& transform, const frames::Image& image);

// The mean grey level as in Pillow's ImageEnhance.Contrast: of mode "L", rounded.
int mean_grey(const frames::Image& image);

// Level (0 … 255) → level after brightness, contrast about `grey` (to which brightness applies,
// too) and gamma, each clamped to 0 … 255, none rounded.
std::array<float, 256> tone_curve(const Transform& transform, int grey);

// Gaussian noise in levels, one value per pixel, shared by the three channels, so that grey stays
// grey.
std::vector<float> make_noise(const Transform& transform, std::size_t pixels);

// Curve, then noise, rounded half up. `noise` has a value per pixel or is empty.
void apply_tone(const std::array<float, 256>& curve, std::span<const float> noise,
                std::span<std::uint8_t> rgb);

// The augmented views of one exam: the same transform for all of its frames.

// Takes the frames of one exam in order. Views are numbered 1 … count(); 0 is `clean`.
class ExamViews {
 public:
  ExamViews(const Augmentation& augmentation, const std::string& exam);

  std::size_t count() const { return views_.size(); }

  // Call before tiling and resizing. Contrast is about the first frame's mean grey in all frames,
  // which preserves changes between frames.
  frames::Image warp(std::size_t view, const frames::Image& image);

  // Call after resizing: `rgb` is the backbone's input. Noise is the same in all frames and tiles,
  // so that a static image stays static.
  void finish(std::size_t view, std::span<std::uint8_t> rgb);

 private:
  struct View {
    Transform transform;
    std::optional<std::array<float, 256>> curve;
    std::vector<float> noise;
  };
  std::vector<View> views_;
  std::optional<int> grey_;
};

}  // namespace coldframe::augment

// --augment: which random changes the views of an exam may have, and how far they go.
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

// The transforms that `--views K` alone stands for.
inline constexpr const char* kDefaultList =
    "flip,rotate=10,scale=0.8:1,brightness=0.2,contrast=0.2,gamma=0.2,noise=0.02";

struct Range {
  double low = 0, high = 0;

  bool operator==(const Range&) const = default;
};

// Empty: not asked for. The meaning of the numbers is torchvision's where it has the operation.
struct Augmentation {
  std::size_t views = 0;  // besides `clean`
  std::uint64_t seed = 0;
  std::optional<double> flip, vflip;  // probability of left and right, of top and bottom swapped
  std::optional<Range> rotate;        // degrees counter-clockwise about the centre
  std::optional<Range> scale;         // share of the area that a crop of the same shape keeps
  std::optional<Range> brightness;    // levels are multiplied by it
  std::optional<Range> contrast;      // so is their distance from the exam's mean grey
  std::optional<Range> gamma;         // level^gamma of levels in 0 … 1; drawn on a log scale
  std::optional<Range> noise;         // deviation of Gaussian noise, of levels in 0 … 1
};

// Fills in what a list says: "flip,rotate=10,scale=0.8:1". A single number V spans −V … V degrees
// (rotate), V … 1 (scale), 1 − V … 1 + V (brightness, contrast), 1 / (1 + V) … 1 + V (gamma),
// 0 … V (noise), or is the probability (flip, vflip; 0.5 when none is given). ConfigError.
void parse_list(const std::string& list, Augmentation& augmentation);

// The recipe's entry: the seed, and what was asked for.
Json to_json(const Augmentation& augmentation);

// "clean", "view1" … "viewK".
std::vector<std::string> view_names(const Augmentation& augmentation);

// One random transform, as drawn for a view of an exam and applied to all of its frames.

struct Transform {
  bool flip = false, vflip = false;
  double angle = 0;     // degrees counter-clockwise
  double side = 1;      // of the crop, as a share of the frame's sides
  double x = 0, y = 0;  // where it lies: 0 left or top … 1 right or bottom
  double brightness = 1, contrast = 1, gamma = 1;
  double noise = 0;  // deviation, of levels in 0 … 1
  std::uint64_t noise_key = 0;
};

// Depends on the seed, the exam's id and the view's number (1 … K) only, and each part of it not on
// what else is asked for: with or without `noise` the same views are flipped.
Transform draw_transform(const Augmentation& augmentation, const std::string& exam,
                         std::size_t view);

// Flips, then rotates, then crops. Rotation keeps the frame's size, interpolates linearly and fills
// with black, bit-identical to Pillow's Image.rotate(angle, BILINEAR).
frames::Image warp(const Transform& transform, const frames::Image& image);

// The mean grey level as Pillow's ImageEnhance.Contrast takes it: of "L", rounded.
int mean_grey(const frames::Image& image);

// Level (0 … 255) → level after brightness, contrast about `grey` (made brighter with the rest) and
// gamma, each clamped to 0 … 255 and none rounded.
std::array<float, 256> tone_curve(const Transform& transform, int grey);

// Gaussian noise in levels, one value per pixel for all three channels, so that grey stays grey.
std::vector<float> make_noise(const Transform& transform, std::size_t pixels);

// Curve, then noise, rounded half up. `noise` has a value per pixel or is empty.
void apply_tone(const std::array<float, 256>& curve, std::span<const float> noise,
                std::span<std::uint8_t> rgb);

// The augmented views of one exam: the same transform for all of its frames.

// Frames of one exam, in turn. Views are numbered 1 … count(); 0 is `clean`.
class ExamViews {
 public:
  ExamViews(const Augmentation& augmentation, const std::string& exam);

  std::size_t count() const { return views_.size(); }

  // Before tiling and resizing. The first frame's mean grey is what contrast turns about, in all
  // frames, so that what changes from frame to frame still does.
  frames::Image warp(std::size_t view, const frames::Image& image);

  // After it: `rgb` is what the backbone will see. Noise is the same in all frames and tiles, so
  // that a still picture stays still.
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

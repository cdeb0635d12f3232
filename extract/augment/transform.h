// One random transform, as drawn for a view of an exam and applied to all of its frames.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "extract/augment/augmentation.h"
#include "extract/frames/frame.h"

namespace coldframe::augment {

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

}  // namespace coldframe::augment

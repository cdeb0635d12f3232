// --augment: which random changes the views of an exam may have, and how far they go.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/files/json.h"

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

}  // namespace coldframe::augment

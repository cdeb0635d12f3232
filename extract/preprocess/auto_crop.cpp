#include "extract/preprocess/auto_crop.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace coldframe::preprocess {
namespace {

// Levels up to this are background: black as lossy video shows it, whose black may be 16.
constexpr std::uint8_t kDark = 20;
// Levels by which a pixel must change over the frames to count as moving: beyond coding noise.
constexpr std::uint8_t kMotion = 16;
// A part is kept when it has at least this share of the largest part's blocks.
constexpr double kLargeShare = 0.2;
// A crop below this share of the frame is not trusted.
constexpr double kLeastShare = 1.0 / 32;

// Per pixel over all frames: the brightest level, and the largest less the smallest.
struct Extremes {
  std::vector<std::uint8_t> brightest, change;
};

std::uint8_t level(const std::uint8_t* rgb) {
  return std::max({rgb[0], rgb[1], rgb[2]});
}

Extremes extremes_of(std::span<const frames::Image> images) {
  const std::size_t pixels = images.front().rgb.size() / 3;
  std::vector<std::uint8_t> low(pixels, 255), high(pixels, 0);
  for (const frames::Image& image : images) {
    for (std::size_t i = 0; i < pixels; ++i) {
      const std::uint8_t value = level(&image.rgb[i * 3]);
      low[i] = std::min(low[i], value);
      high[i] = std::max(high[i], value);
    }
  }
  std::vector<std::uint8_t> change(pixels);
  for (std::size_t i = 0; i < pixels; ++i) change[i] = static_cast<std::uint8_t>(high[i] - low[i]);
  return {std::move(high), std::move(change)};
}

// The frame in square blocks, so that text, noise and thin lines do not count as areas.
class Blocks {
 public:
  Blocks(int width, int height, const Extremes& extremes);

  // Blocks of the parts that are kept; labels of 0 are background.
  frames::Rect around_large_parts() const;

 private:
  struct Part {
    std::size_t lit = 0, moving = 0;  // blocks
  };
  bool full(const std::vector<std::uint8_t>& levels, std::uint8_t above, int bx, int by) const;
  void label_parts();
  void flood(int label, int bx, int by);
  bool keeps(const Part& part) const;
  bool holds_kept_block(const std::vector<bool>& kept, int bx, int by) const;
  std::size_t at(int bx, int by) const {
    return static_cast<std::size_t>(by) * static_cast<std::size_t>(columns_) +
           static_cast<std::size_t>(bx);
  }

  int width_, height_, side_, columns_, rows_;
  const Extremes& extremes_;
  std::vector<bool> lit_, moving_;
  std::vector<int> label_;  // per block: 0, or 1 + its part
  std::vector<Part> parts_;
  Part largest_;
};

Blocks::Blocks(int width, int height, const Extremes& extremes)
    : width_(width),
      height_(height),
      side_(std::clamp(std::min(width, height) / 64, 1, 8)),
      columns_((width + side_ - 1) / side_),
      rows_((height + side_ - 1) / side_),
      extremes_(extremes) {
  for (int by = 0; by < rows_; ++by) {
    for (int bx = 0; bx < columns_; ++bx) {
      lit_.push_back(full(extremes.brightest, kDark, bx, by));
      moving_.push_back(full(extremes.change, kMotion, bx, by));
    }
  }
  label_parts();
}

// Whether at least a quarter of the block's pixels lie above a level.
bool Blocks::full(const std::vector<std::uint8_t>& levels, std::uint8_t above, int bx,
                  int by) const {
  int count = 0, pixels = 0;
  for (int y = by * side_; y < std::min(height_, (by + 1) * side_); ++y) {
    for (int x = bx * side_; x < std::min(width_, (bx + 1) * side_); ++x) {
      ++pixels;
      count += levels[static_cast<std::size_t>(y) * static_cast<std::size_t>(width_) +
                      static_cast<std::size_t>(x)] > above;
    }
  }
  return 4 * count >= pixels;
}

void Blocks::label_parts() {
  label_.assign(lit_.size(), 0);
  for (int by = 0; by < rows_; ++by) {
    for (int bx = 0; bx < columns_; ++bx) {
      if (!lit_[at(bx, by)] || label_[at(bx, by)]) continue;
      parts_.emplace_back();
      flood(static_cast<int>(parts_.size()), bx, by);
      largest_.lit = std::max(largest_.lit, parts_.back().lit);
      largest_.moving = std::max(largest_.moving, parts_.back().moving);
    }
  }
}

// Blocks of one part touch, at corners too.
void Blocks::flood(int label, int bx, int by) {
  Part& part = parts_.back();
  std::vector<std::pair<int, int>> open{{bx, by}};
  label_[at(bx, by)] = label;
  while (!open.empty()) {
    const auto [x, y] = open.back();
    open.pop_back();
    ++part.lit;
    part.moving += moving_[at(x, y)];
    for (int ny = std::max(0, y - 1); ny <= std::min(rows_ - 1, y + 1); ++ny) {
      for (int nx = std::max(0, x - 1); nx <= std::min(columns_ - 1, x + 1); ++nx) {
        if (!lit_[at(nx, ny)] || label_[at(nx, ny)]) continue;
        label_[at(nx, ny)] = label;
        open.emplace_back(nx, ny);
      }
    }
  }
}

bool Blocks::keeps(const Part& part) const {
  // Little motion at all (a flickering clock on a still image) decides nothing.
  const bool by_motion = largest_.moving * 50 >= largest_.lit && largest_.moving > 0;
  return by_motion
             ? static_cast<double>(part.moving) >=
                   kLargeShare * static_cast<double>(largest_.moving)
             : static_cast<double>(part.lit) >= kLargeShare * static_cast<double>(largest_.lit);
}

// The block itself or one beside it: an area's rim fills its blocks only in part.
bool Blocks::holds_kept_block(const std::vector<bool>& kept, int bx, int by) const {
  const auto is_kept = [&](int x, int y) {
    return x >= 0 && y >= 0 && x < columns_ && y < rows_ && kept[at(x, y)];
  };
  return is_kept(bx, by) || is_kept(bx - 1, by) || is_kept(bx + 1, by) || is_kept(bx, by - 1) ||
         is_kept(bx, by + 1);
}

frames::Rect Blocks::around_large_parts() const {
  std::vector<bool> kept(label_.size());
  for (std::size_t i = 0; i < label_.size(); ++i)
    kept[i] = label_[i] > 0 && keeps(parts_[static_cast<std::size_t>(label_[i] - 1)]);
  int left = width_, top = height_, right = 0, bottom = 0;
  for (int y = 0; y < height_; ++y) {
    for (int x = 0; x < width_; ++x) {
      const std::size_t pixel = static_cast<std::size_t>(y) * static_cast<std::size_t>(width_) +
                                static_cast<std::size_t>(x);
      if (extremes_.brightest[pixel] <= kDark || !holds_kept_block(kept, x / side_, y / side_))
        continue;
      left = std::min(left, x);
      right = std::max(right, x + 1);
      top = std::min(top, y);
      bottom = std::max(bottom, y + 1);
    }
  }
  return {left, top, right - left, bottom - top};
}

}  // namespace

frames::Rect find_crop(std::span<const frames::Image> images) {
  const int width = images.front().width, height = images.front().height;
  const Extremes extremes = extremes_of(images);
  const frames::Rect found = Blocks(width, height, extremes).around_large_parts();
  const double share =
      static_cast<double>(found.width) * found.height / (static_cast<double>(width) * height);
  if (found.width < 1 || found.height < 1 || share < kLeastShare) return {0, 0, width, height};
  return found;
}

}  // namespace coldframe::preprocess

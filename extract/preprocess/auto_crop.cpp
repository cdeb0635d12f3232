#include "extract/preprocess/auto_crop.h"

#include <algorithm>
#include <cstdint>
#include <opencv2/imgproc.hpp>
#include <vector>

namespace coldframe::preprocess {

bool LevelRange::add(const frames::Image& image) {
  if (low.empty()) {
    width = image.width;
    height = image.height;
    low.assign(image.rgb.size() / 3, 255);
    high.assign(image.rgb.size() / 3, 0);
  }
  if (image.width != width || image.height != height) return false;
  for (std::size_t i = 0; i < low.size(); ++i) {
    const std::uint8_t* rgb = &image.rgb[i * 3];
    const std::uint8_t level = std::max({rgb[0], rgb[1], rgb[2]});
    low[i] = std::min(low[i], level);
    high[i] = std::max(high[i], level);
  }
  return true;
}

std::size_t label_connected_components(const cv::Mat1b& mask, cv::Mat1i& parts) {
  // Exams are read side by side already; OpenCV's own threads would need the system to grant them.
  static const bool alone = (cv::setNumThreads(0), true);
  static_cast<void>(alone);
  const int count = cv::connectedComponents(mask, parts, 8, CV_32S);
  std::vector<int> order(static_cast<std::size_t>(count));
  int last = 0;
  for (int& part : parts) {
    int& number = order[static_cast<std::size_t>(part)];
    if (part != 0 && number == 0) number = ++last;
    part = number;
  }
  return static_cast<std::size_t>(last);
}

namespace {

// Levels up to this are background: black as lossy video shows it, whose black may be 16.
constexpr std::uint8_t kDark = 20;
// Levels by which a pixel must change over the frames to count as moving: beyond coding noise.
constexpr int kMotion = 16;
// A part is kept when it has at least this share of the largest part's blocks.
constexpr double kLargeShare = 0.2;
// A crop below this share of the frame is not trusted.
constexpr double kMinShare = 1.0 / 32;

// The frame in square blocks, so that text, noise and thin lines do not count as areas.
class Blocks {
 public:
  explicit Blocks(const LevelRange& levels);

  frames::Rect around_large_parts() const;

 private:
  struct Component {
    std::size_t lit = 0, moving = 0;  // blocks
  };
  template <typename Wanted>
  bool full(int bx, int by, const Wanted& wanted) const;
  void keep_large_parts(const cv::Mat1b& lit, const cv::Mat1b& moving);

  const LevelRange& levels_;
  int side_, columns_, rows_;
  cv::Mat1b kept_;  // not 0: of a part that is kept, or beside such a block
};

Blocks::Blocks(const LevelRange& levels)
    : levels_(levels),
      side_(std::clamp(std::min(levels.width, levels.height) / 64, 1, 8)),
      columns_((levels.width + side_ - 1) / side_),
      rows_((levels.height + side_ - 1) / side_),
      kept_(rows_, columns_) {
  cv::Mat1b lit(rows_, columns_), moving(rows_, columns_);
  for (int by = 0; by < rows_; ++by) {
    for (int bx = 0; bx < columns_; ++bx) {
      lit(by, bx) = full(bx, by, [&](std::size_t i) { return levels.high[i] > kDark; });
      moving(by, bx) = full(bx, by, [&](std::size_t i) { return levels.change(i) > kMotion; });
    }
  }
  keep_large_parts(lit, moving);
}

// True if at least a quarter of the block's pixels are wanted ones.
template <typename Wanted>
bool Blocks::full(int bx, int by, const Wanted& wanted) const {
  int count = 0, pixels = 0;
  for (int y = by * side_; y < std::min(levels_.height, (by + 1) * side_); ++y) {
    for (int x = bx * side_; x < std::min(levels_.width, (bx + 1) * side_); ++x) {
      ++pixels;
      count += wanted(levels_.at(x, y));
    }
  }
  return 4 * count >= pixels;
}

void Blocks::keep_large_parts(const cv::Mat1b& lit, const cv::Mat1b& moving) {
  cv::Mat1i number;
  std::vector<Component> parts(label_connected_components(lit, number) + 1);
  const auto part_of = [&](int bx, int by) -> Component& {
    return parts[static_cast<std::size_t>(number(by, bx))];
  };
  for (int by = 0; by < rows_; ++by) {
    for (int bx = 0; bx < columns_; ++bx) {
      if (lit(by, bx) == 0) continue;
      ++part_of(bx, by).lit;
      part_of(bx, by).moving += moving(by, bx);
    }
  }
  Component largest;
  for (const Component& part : parts)
    largest = {std::max(largest.lit, part.lit), std::max(largest.moving, part.moving)};
  // Little motion at all (a flickering clock on a still image) decides nothing.
  const bool by_motion = largest.moving * 50 >= largest.lit && largest.moving > 0;
  const auto size = [&](const Component& part) {
    return static_cast<double>(by_motion ? part.moving : part.lit);
  };
  for (int by = 0; by < rows_; ++by) {
    for (int bx = 0; bx < columns_; ++bx)
      kept_(by, bx) = lit(by, bx) && size(part_of(bx, by)) >= kLargeShare * size(largest);
  }
  // An area's rim fills its blocks only in part.
  cv::dilate(kept_.clone(), kept_, cv::getStructuringElement(cv::MORPH_CROSS, {3, 3}));
}

frames::Rect Blocks::around_large_parts() const {
  int left = levels_.width, top = levels_.height, right = 0, bottom = 0;
  for (int y = 0; y < levels_.height; ++y) {
    for (int x = 0; x < levels_.width; ++x) {
      if (levels_.high[levels_.at(x, y)] <= kDark || kept_(y / side_, x / side_) == 0) continue;
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
  LevelRange levels;
  for (const frames::Image& image : images) levels.add(image);
  const frames::Rect found = Blocks(levels).around_large_parts();
  const double share = static_cast<double>(found.width) * found.height /
                       (static_cast<double>(levels.width) * levels.height);
  if (found.width < 1 || found.height < 1 || share < kMinShare)
    return {0, 0, levels.width, levels.height};
  return found;
}

}  // namespace coldframe::preprocess

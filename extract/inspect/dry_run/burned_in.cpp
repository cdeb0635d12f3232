#include "extract/inspect/dry_run/burned_in.h"

#include <algorithm>
#include <array>
#include <utility>

namespace coldframe::extract::dry_run {
namespace {

using frames::Rect;

constexpr int kStill = 12;     // levels that coding noise may change a pixel by
constexpr int kMoving = 24;    // levels from which on a pixel moves
constexpr int kBright = 120;   // of a stroke
constexpr int kContrast = 90;  // to the still background within `kReach` pixels
constexpr int kReach = 4;
constexpr int kBlock = 8;           // pixels
constexpr int kStrokePixels = 5;    // in a block of text
constexpr std::size_t kBlocks = 3;  // of text that are worth telling

constexpr int kBothWays = 8;  // pixels of lines in either direction

// Blocks that hold text, and their connected groups; gaps of one block join, as between words.
class TextBlocks {
 public:
  TextBlocks(int columns, int rows)
      : columns_(columns),
        rows_(rows),
        count_(static_cast<std::size_t>(columns) * static_cast<std::size_t>(rows)),
        down_(count_),
        across_(count_) {}

  // A pixel of a line that runs down, across, or both (a dot, a slope).
  void add_stroke(int x, int y, bool down, bool across) {
    const std::size_t block = at(x / kBlock, y / kBlock);
    ++count_[block];
    down_[block] += down;
    across_[block] += across;
  }
  std::vector<Rect> groups(int width, int height);

 private:
  std::size_t at(int bx, int by) const {
    return static_cast<std::size_t>(by) * static_cast<std::size_t>(columns_) +
           static_cast<std::size_t>(bx);
  }
  struct Group {
    Rect box;  // left, top, right, bottom in blocks, inclusive
    std::size_t blocks = 0;
    int down = 0, across = 0;  // pixels
  };
  Group flood(int bx, int by);

  int columns_, rows_;
  std::vector<int> count_;  // of stroke pixels; 0 once a block was visited
  std::vector<int> down_, across_;
};

TextBlocks::Group TextBlocks::flood(int bx, int by) {
  Group group{{bx, by, bx, by}, 0, 0, 0};
  std::vector<std::pair<int, int>> open{{bx, by}};
  count_[at(bx, by)] = 0;
  while (!open.empty()) {
    const auto [x, y] = open.back();
    open.pop_back();
    ++group.blocks;
    group.down += down_[at(x, y)];
    group.across += across_[at(x, y)];
    Rect& box = group.box;
    box = {std::min(box.x, x), std::min(box.y, y), std::max(box.width, x), std::max(box.height, y)};
    for (int ny = std::max(0, y - 1); ny <= std::min(rows_ - 1, y + 1); ++ny) {
      for (int nx = std::max(0, x - 2); nx <= std::min(columns_ - 1, x + 2); ++nx) {
        if (count_[at(nx, ny)] < kStrokePixels) continue;
        count_[at(nx, ny)] = 0;
        open.emplace_back(nx, ny);
      }
    }
  }
  return group;
}

std::vector<Rect> TextBlocks::groups(int width, int height) {
  std::vector<Rect> found;
  for (int by = 0; by < rows_; ++by) {
    for (int bx = 0; bx < columns_; ++bx) {
      if (count_[at(bx, by)] < kStrokePixels) continue;
      const auto [box, blocks, down, across] = flood(bx, by);
      // Letters and traces run both ways; the echo of a probe's surface runs across only.
      if (blocks < kBlocks || down < kBothWays || across < kBothWays) continue;
      // Half a block more on each side: the rim of a letter may fill too little of the next one.
      const int left = std::max(0, box.x * kBlock - kBlock / 2);
      const int top = std::max(0, box.y * kBlock - kBlock / 2);
      const int right = std::min(width, (box.width + 1) * kBlock + kBlock / 2);
      const int bottom = std::min(height, (box.height + 1) * kBlock + kBlock / 2);
      found.push_back({left, top, right - left, bottom - top});
    }
  }
  return found;
}

bool near_border(const Rect& box, int width, int height) {
  const auto outside = [](int begin, int length, int edge) {
    const int centre = 2 * begin + length;  // twice, so that it is whole
    return 2 * centre < edge || 2 * centre > 3 * edge;
  };
  return outside(box.x, box.width, width) || outside(box.y, box.height, height);
}

}  // namespace

void StillParts::add(const frames::Image& image) {
  if (frames_ == 0) {
    width_ = image.width;
    height_ = image.height;
    low_.assign(image.rgb.size() / 3, 255);
    high_.assign(image.rgb.size() / 3, 0);
  }
  if (image.width != width_ || image.height != height_) return;
  ++frames_;
  for (std::size_t i = 0; i < low_.size(); ++i) {
    const std::uint8_t* rgb = &image.rgb[i * 3];
    const std::uint8_t level = std::max({rgb[0], rgb[1], rgb[2]});
    low_[i] = std::min(low_[i], level);
    high_[i] = std::max(high_[i], level);
  }
}

bool StillParts::still(std::size_t pixel) const {
  return high_[pixel] - low_[pixel] <= kStill;
}

// Still and bright, with still and much darker pixels on either side along (dx, dy), as a line has
// across its direction.
bool StillParts::is_line(int x, int y, int dx, int dy) const {
  const std::size_t centre = at(x, y);
  if (low_[centre] < kBright || !still(centre)) return false;
  const auto darker = [&](int sign) {
    for (int step = 1; step <= kReach; ++step) {
      const int nx = x + sign * step * dx, ny = y + sign * step * dy;
      if (nx < 0 || ny < 0 || nx >= width_ || ny >= height_) return false;
      if (still(at(nx, ny)) && high_[at(nx, ny)] + kContrast <= low_[centre]) return true;
    }
    return false;
  };
  return darker(-1) && darker(1);
}

std::vector<Rect> StillParts::bright_regions() const {
  if (frames_ < 2) return {};
  std::size_t moving = 0;
  for (std::size_t i = 0; i < low_.size(); ++i) moving += high_[i] - low_[i] >= kMoving;
  if (moving * 50 < low_.size()) return {};
  TextBlocks blocks((width_ + kBlock - 1) / kBlock, (height_ + kBlock - 1) / kBlock);
  for (int y = 0; y < height_; ++y) {
    for (int x = 0; x < width_; ++x) {
      const bool down = is_line(x, y, 1, 0), across = is_line(x, y, 0, 1);
      if (down || across) blocks.add_stroke(x, y, down, across);
    }
  }
  std::vector<Rect> found = blocks.groups(width_, height_);
  std::erase_if(found, [&](const Rect& box) { return !near_border(box, width_, height_); });
  std::stable_sort(found.begin(), found.end(), [](const Rect& a, const Rect& b) {
    return a.width * a.height > b.width * b.height;
  });
  return found;
}

}  // namespace coldframe::extract::dry_run

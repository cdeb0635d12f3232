#include "extract/inspect/dry_run/burned_in.h"

#include <algorithm>

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
  TextBlocks(int width, int height)
      : width_(width),
        height_(height),
        columns_((width + kBlock - 1) / kBlock),
        rows_((height + kBlock - 1) / kBlock),
        strokes_(static_cast<std::size_t>(columns_) * static_cast<std::size_t>(rows_)) {}

  // A pixel of a line that runs down, across, or both (a dot, a slope).
  void add_stroke(int x, int y, bool down, bool across) {
    Strokes& block = at(x / kBlock, y / kBlock);
    ++block.all;
    block.down += down;
    block.across += across;
  }
  std::vector<Rect> groups();

 private:
  struct Strokes {
    int all = 0, down = 0, across = 0;  // pixels
  };
  struct Group {
    cv::Rect box;  // in blocks
    std::size_t blocks = 0;
    int down = 0, across = 0;  // pixels
  };
  Strokes& at(int bx, int by) {
    return strokes_[static_cast<std::size_t>(by) * static_cast<std::size_t>(columns_) +
                    static_cast<std::size_t>(bx)];
  }
  std::vector<Group> connected();

  int width_, height_, columns_, rows_;
  std::vector<Strokes> strokes_;
};

std::vector<TextBlocks::Group> TextBlocks::connected() {
  cv::Mat1b text = cv::Mat1b::zeros(rows_, columns_);
  for (int by = 0; by < rows_; ++by) {
    for (int bx = 0; bx < columns_; ++bx) {
      if (at(bx, by).all < kStrokePixels) continue;
      text(by, bx) = 1;
      if (bx + 1 < columns_) text(by, bx + 1) = 1;  // closes a gap
    }
  }
  cv::Mat1i number;
  std::vector<Group> groups(preprocess::number_parts(text, number));
  for (int by = 0; by < rows_; ++by) {
    for (int bx = 0; bx < columns_; ++bx) {
      const Strokes& strokes = at(bx, by);
      if (strokes.all < kStrokePixels) continue;
      Group& group = groups[static_cast<std::size_t>(number(by, bx) - 1)];
      group.box |= cv::Rect(bx, by, 1, 1);
      ++group.blocks;
      group.down += strokes.down;
      group.across += strokes.across;
    }
  }
  return groups;
}

std::vector<Rect> TextBlocks::groups() {
  std::vector<Rect> found;
  for (const auto& [box, blocks, down, across] : connected()) {
    // Letters and traces run both ways; the echo of a probe's surface runs across only.
    if (blocks < kBlocks || down < kBothWays || across < kBothWays) continue;
    // Half a block more on each side: the rim of a letter may fill too little of the next one.
    const int left = std::max(0, box.x * kBlock - kBlock / 2);
    const int top = std::max(0, box.y * kBlock - kBlock / 2);
    const int right = std::min(width_, box.br().x * kBlock + kBlock / 2);
    const int bottom = std::min(height_, box.br().y * kBlock + kBlock / 2);
    found.push_back({left, top, right - left, bottom - top});
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
  frames_ += levels_.add(image);
}

// Still and bright, with still and much darker pixels on either side along (dx, dy), as a line has
// across its direction.
bool StillParts::is_line(int x, int y, int dx, int dy) const {
  const std::size_t centre = levels_.at(x, y);
  const auto still = [&](std::size_t pixel) { return levels_.change(pixel) <= kStill; };
  if (levels_.low[centre] < kBright || !still(centre)) return false;
  const auto darker = [&](int sign) {
    for (int step = 1; step <= kReach; ++step) {
      const int nx = x + sign * step * dx, ny = y + sign * step * dy;
      if (nx < 0 || ny < 0 || nx >= levels_.width || ny >= levels_.height) return false;
      const std::size_t pixel = levels_.at(nx, ny);
      if (still(pixel) && levels_.high[pixel] + kContrast <= levels_.low[centre]) return true;
    }
    return false;
  };
  return darker(-1) && darker(1);
}

std::vector<Rect> StillParts::bright_regions() const {
  if (frames_ < 2) return {};
  const int width = levels_.width, height = levels_.height;
  std::size_t moving = 0;
  for (std::size_t i = 0; i < levels_.low.size(); ++i) moving += levels_.change(i) >= kMoving;
  if (moving * 50 < levels_.low.size()) return {};
  TextBlocks blocks(width, height);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const bool down = is_line(x, y, 1, 0), across = is_line(x, y, 0, 1);
      if (down || across) blocks.add_stroke(x, y, down, across);
    }
  }
  std::vector<Rect> found = blocks.groups();
  std::erase_if(found, [&](const Rect& box) { return !near_border(box, width, height); });
  std::stable_sort(found.begin(), found.end(), [](const Rect& a, const Rect& b) {
    return a.width * a.height > b.width * b.height;
  });
  return found;
}

}  // namespace coldframe::extract::dry_run

// --crop auto on made frames whose image proper is known.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "extract/preprocess/auto_crop.h"

namespace coldframe::preprocess {
namespace {

using frames::Image;
using frames::Rect;

constexpr int kWidth = 640, kHeight = 480;

class Canvas {
 public:
  explicit Canvas(std::uint8_t level = 0)
      : image_{kWidth, kHeight, std::vector<std::uint8_t>(kWidth * kHeight * 3, level)} {}

  template <typename Inside, typename Level>
  Canvas& paint(const Inside& inside, const Level& level) {
    for (int y = 0; y < kHeight; ++y) {
      for (int x = 0; x < kWidth; ++x) {
        if (!inside(x, y)) continue;
        std::fill_n(image_.rgb.begin() + (y * kWidth + x) * 3, 3,
                    static_cast<std::uint8_t>(level(x, y)));
      }
    }
    return *this;
  }
  // Bars of 3 pixels as letters have them.
  Canvas& text(int left, int top, int width) {
    return paint(
        [=](int x, int y) {
          return x >= left && x < left + width && y >= top && y < top + 12 &&
                 (x / 3 + y / 6) % 2 == 0;
        },
        [](int, int) { return 230; });
  }
  Image image() const { return image_; }

 private:
  Image image_;
};

// A sector with its apex at (320, 40), 300 pixels deep, 35° to either side.
bool in_sector(int x, int y) {
  const double dx = x - 320, dy = y - 40;
  return dy > 0 && std::hypot(dx, dy) < 300 && std::abs(std::atan2(dx, dy)) < 35 * M_PI / 180;
}
const Rect kSector{148, 41, 345, 299};

void expect_near(const Rect& found, const Rect& expected, int tolerance) {
  EXPECT_NEAR(found.x, expected.x, tolerance);
  EXPECT_NEAR(found.y, expected.y, tolerance);
  EXPECT_NEAR(found.x + found.width, expected.x + expected.width, tolerance);
  EXPECT_NEAR(found.y + found.height, expected.y + expected.height, tolerance);
}

// Speckle that changes from frame to frame, patient data and a trace that do not move.
std::vector<Image> cine(bool with_trace) {
  std::vector<Image> frames;
  std::mt19937 random(1);
  for (int i = 0; i < kCropSamples; ++i) {
    Canvas canvas;
    canvas.paint(in_sector, [&](int, int) { return 30 + random() % 160; });
    canvas.text(10, 10, 120).text(500, 440, 120);
    if (with_trace)  // an ECG that runs from left to right, two pixels thick
      canvas.paint([=](int x, int y) { return x < (i + 1) * 80 && std::abs(y - 420) < 2; },
                   [](int, int) { return 200; });
    frames.push_back(canvas.image());
  }
  return frames;
}

TEST(AutoCrop, FindsTheSectorFromMotion) {
  expect_near(find_crop(cine(false)), kSector, 8);
}

TEST(AutoCrop, LeavesAMovingTraceOut) {
  expect_near(find_crop(cine(true)), kSector, 8);
}

TEST(AutoCrop, FindsAFundusDiscInOneImage) {
  const auto inside = [](int x, int y) { return std::hypot(x - 300, y - 240) < 200; };
  Canvas canvas(3);
  canvas.paint(inside, [](int x, int) { return 60 + x / 8; }).text(550, 450, 60);
  expect_near(find_crop(std::vector{canvas.image()}), {101, 41, 399, 399}, 4);
}

TEST(AutoCrop, RemovesLetterboxBorders) {
  Canvas canvas(16);
  canvas.paint([](int, int y) { return y >= 60 && y < 420; },
               [](int x, int y) { return 50 + (x + y) % 100; });
  EXPECT_EQ(find_crop(std::vector{canvas.image()}), (Rect{0, 60, kWidth, 360}));
}

TEST(AutoCrop, KeepsAStillBodyAroundAMovingHeart) {
  std::vector<Image> frames;
  for (int i = 0; i < kCropSamples; ++i) {
    Canvas canvas;
    canvas.paint([](int x, int y) { return x >= 80 && x < 560 && y >= 100 && y < 400; },
                 [](int, int) { return 90; });
    canvas.paint([](int x, int y) { return std::hypot(x - 320, y - 250) < 70; },
                 [=](int, int) { return 40 + 20 * i; });
    frames.push_back(canvas.image());
  }
  EXPECT_EQ(find_crop(frames), (Rect{80, 100, 480, 300}));
}

TEST(AutoCrop, KeepsAFrameWithoutBorders) {
  EXPECT_EQ(find_crop(std::vector{Canvas(120).image()}), (Rect{0, 0, kWidth, kHeight}));
}

TEST(AutoCrop, KeepsABlackFrame) {
  EXPECT_EQ(find_crop(std::vector{Canvas().image()}), (Rect{0, 0, kWidth, kHeight}));
}

TEST(AutoCrop, WorksDownToOnePixel) {
  EXPECT_EQ(find_crop(std::vector{Image{1, 1, {9, 200, 9}}}), (Rect{0, 0, 1, 1}));
}

}  // namespace
}  // namespace coldframe::preprocess

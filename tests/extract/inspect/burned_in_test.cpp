#include "extract/inspect/survey.h"

#include <gtest/gtest.h>

#include <random>

namespace coldframe::extract::dry_run {
namespace {

using frames::Image;
using frames::Rect;

constexpr int kWidth = 320, kHeight = 240;

void set(Image& image, int x, int y, int level) {
  std::fill_n(image.rgb.begin() + (y * image.width + x) * 3, 3, static_cast<std::uint8_t>(level));
}

// Speckle that moves in the middle of a black frame.
Image speckle(unsigned seed) {
  std::mt19937 random(seed);
  Image image{kWidth, kHeight, std::vector<std::uint8_t>(kWidth * kHeight * 3)};
  for (int y = 60; y < 200; ++y) {
    for (int x = 80; x < 240; ++x) set(image, x, y, static_cast<int>(random() % 200));
  }
  return image;
}

// Letters of bars: an "H" every eight pixels.
void write(Image& image, int left, int top, int letters) {
  for (int i = 0; i < letters; ++i) {
    for (int y = 0; y < 9; ++y) {
      set(image, left + 8 * i, top + y, 220);
      set(image, left + 8 * i + 4, top + y, 220);
    }
    for (int x = 0; x < 4; ++x) set(image, left + 8 * i + x, top + 4, 220);
  }
}

template <typename Change>
std::vector<Rect> regions(int frames, const Change& change) {
  StaticPixelMask parts;
  for (int i = 0; i < frames; ++i) {
    Image image = speckle(static_cast<unsigned>(i));
    change(image, i);
    parts.add(image);
  }
  return parts.bright_regions();
}

TEST(BurnedIn, TextThatStandsStillIsFound) {
  const auto found = regions(6, [](Image& image, int) { write(image, 8, 8, 10); });
  ASSERT_EQ(found.size(), 1u);
  EXPECT_LE(found[0].x, 8);
  EXPECT_LE(found[0].y, 8);
  EXPECT_GE(found[0].x + found[0].width, 84);
  EXPECT_GE(found[0].y + found[0].height, 17);
}

TEST(BurnedIn, NoTextNoRegion) {
  EXPECT_TRUE(regions(6, [](Image&, int) {}).empty());
}

TEST(BurnedIn, TextThatMovesIsPartOfTheImage) {
  EXPECT_TRUE(
      regions(6, [](Image& image, int i) { write(image, 8 + 3 * i, 8 + 5 * i, 10); }).empty());
}

TEST(BurnedIn, AStillLineAtTheProbeIsNoText) {
  const auto line = [](Image& image, int) {
    for (int x = 60; x < 260; ++x) {
      set(image, x, 10, 220);
      set(image, x, 11, 220);
    }
  };
  EXPECT_TRUE(regions(6, line).empty());
}

TEST(BurnedIn, StructuresInTheMiddleAreNotMeant) {
  const auto middle = [](Image& image, int) { write(image, 120, 120, 10); };
  EXPECT_TRUE(regions(6, middle).empty());
}

TEST(BurnedIn, OneFrameOrAStillImageTellNothing) {
  const auto text = [](Image& image, int) { write(image, 8, 8, 10); };
  EXPECT_TRUE(regions(1, text).empty());
  StaticPixelMask parts;
  Image image = speckle(1);
  write(image, 8, 8, 10);
  for (int i = 0; i < 4; ++i) parts.add(image);
  EXPECT_TRUE(parts.bright_regions().empty());
}

TEST(BurnedIn, FramesOfAnotherSizeAreLeftOut) {
  StaticPixelMask parts;
  parts.add(speckle(1));
  parts.add(Image{2, 2, std::vector<std::uint8_t>(12)});
  EXPECT_EQ(parts.frames(), 1u);
}

}  // namespace
}  // namespace coldframe::extract::dry_run

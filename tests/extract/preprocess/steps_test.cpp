// Mask, crop, spacing and tiles: what they do and what they refuse.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "common/cli/error.h"
#include "extract/preprocess/preprocessing.h"
#include "tests/support/temporary_folder.h"

namespace coldframe::preprocess {
namespace {

using coldframe::testing::message_of;
using frames::Image;
using frames::Rect;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Pixel (x, y) has the colour (x, y, 7).
Image gradient(int width, int height) {
  Image image{width, height, {}};
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (const int value : {x, y, 7}) image.rgb.push_back(static_cast<std::uint8_t>(value));
    }
  }
  return image;
}

frames::Frame frame_of(Image image, double row_mm, double column_mm) {
  frames::Frame frame;
  frame.pixels = std::move(image);
  frame.spacing_mm = {row_mm, column_mm};
  return frame;
}

TEST(Crop, CutsTheRectangleOut) {
  const Image part = crop_image(gradient(20, 10), {3, 4, 5, 6});
  EXPECT_EQ(part.width, 5);
  EXPECT_EQ(part.height, 6);
  ASSERT_EQ(part.rgb.size(), 90u);
  EXPECT_THAT((std::vector(part.rgb.begin(), part.rgb.begin() + 3)), ElementsAre(3, 4, 7));
  EXPECT_THAT((std::vector(part.rgb.end() - 3, part.rgb.end())), ElementsAre(7, 9, 7));
}

class CropOutside : public ::testing::TestWithParam<Rect> {};

TEST_P(CropOutside, IsRefusedWithBothSizes) {
  const auto message = message_of<DataError>([] { crop_image(gradient(20, 10), GetParam()); });
  EXPECT_THAT(message, HasSubstr("20×10"));
  EXPECT_THAT(message, HasSubstr(to_text(GetParam())));
}

INSTANTIATE_TEST_SUITE_P(Table, CropOutside,
                         ::testing::Values(Rect{16, 0, 5, 5}, Rect{0, 6, 5, 5}, Rect{-1, 0, 5, 5},
                                           Rect{0, 0, 21, 1}, Rect{30, 30, 1, 1},
                                           Rect{1, 1, 2147483647, 1}));

TEST(MaskStep, BlackensWhatIsBlackInIt) {
  const Image picture{2, 1, {0, 0, 0, 10, 200, 10}};
  const Mask mask = make_mask(picture);
  EXPECT_THAT(mask.keep, ElementsAre(0, 1));
  Image frame{2, 1, {1, 2, 3, 4, 5, 6}};
  apply_mask(mask, frame);
  EXPECT_THAT(frame.rgb, ElementsAre(0, 0, 0, 4, 5, 6));
}

TEST(MaskStep, AnotherSizeIsRefused) {
  Image frame = gradient(3, 1);
  const auto message = message_of<DataError>([&] { apply_mask(make_mask(gradient(2, 1)), frame); });
  EXPECT_THAT(message, HasSubstr("3×1"));
  EXPECT_THAT(message, HasSubstr("2×1"));
}

TEST(MaskStep, DigestKnowsContentAndShape) {
  const Mask wide = make_mask(Image{2, 1, std::vector<std::uint8_t>(6, 255)});
  const Mask high = make_mask(Image{1, 2, std::vector<std::uint8_t>(6, 255)});
  const Mask same = make_mask(Image{2, 1, std::vector<std::uint8_t>(6, 254)});
  EXPECT_EQ(wide.digest, same.digest);
  EXPECT_NE(wide.digest, high.digest);
}

TEST(Spacing, ScalesEachEdgeByItsOwnSpacing) {
  Preprocessing steps;
  steps.spacing_mm = 0.5;
  const Image scaled = rescale_frame(steps, frame_of(gradient(30, 20), 1.0, 0.25));
  EXPECT_EQ(scaled.width, 15);
  EXPECT_EQ(scaled.height, 40);
}

TEST(Spacing, TheSameScaleLeavesPixelsAlone) {
  Preprocessing steps;
  steps.spacing_mm = 0.5;
  EXPECT_EQ(rescale_frame(steps, frame_of(gradient(30, 20), 0.5, 0.5)).rgb, gradient(30, 20).rgb);
}

struct BadSpacing {
  double row_mm, column_mm, wanted;
  std::string message;
  friend void PrintTo(const BadSpacing& bad, std::ostream* out) { *out << bad.message; }
};
class SpacingRefused : public ::testing::TestWithParam<BadSpacing> {};

TEST_P(SpacingRefused, WithTheReason) {
  Preprocessing steps;
  steps.spacing_mm = GetParam().wanted;
  const auto frame = frame_of(gradient(4000, 4), GetParam().row_mm, GetParam().column_mm);
  EXPECT_THAT(message_of<DataError>([&] { rescale_frame(steps, frame); }),
              HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(Table, SpacingRefused,
                         ::testing::Values(BadSpacing{NAN, 1, 1, "states no distance"},
                                           BadSpacing{1, NAN, 1, "states no distance"},
                                           BadSpacing{0, 1, 1, "states no distance"},
                                           BadSpacing{INFINITY, 1, 1, "states no distance"},
                                           BadSpacing{1, 17, 1, "17.0-fold"}));

TEST(Spacing, AResultOfTooManyPixelsIsRefused) {
  Preprocessing steps;
  steps.spacing_mm = 1;
  EXPECT_THAT(
      message_of<DataError>([&] { rescale_frame(steps, frame_of(gradient(900, 400), 16, 16)); }),
      HasSubstr("2^26"));
}

TEST(Prepare, MasksThenCropsThenRescales) {
  Preprocessing steps;
  Image keep = gradient(4, 4);
  keep.rgb.assign(48, 255);
  std::fill_n(keep.rgb.begin(), 12, 0);  // the first row
  steps.mask = std::make_shared<const Mask>(make_mask(keep));
  steps.spacing_mm = 1;
  steps.interpolation = Interpolation::kBilinear;
  Image white{4, 4, std::vector<std::uint8_t>(48, 200)};
  const Image out = PreparedFrame(steps, frame_of(white, 2, 2), Rect{0, 0, 2, 2}).image();
  EXPECT_EQ(out.width, 4);
  EXPECT_EQ(out.height, 4);
  EXPECT_EQ(out.rgb.front(), 0);  // masked before it was cropped
  EXPECT_EQ(out.rgb.back(), 200);
}

// Views whose levels run backwards, and are brighter by the view's number in the end.
struct CountedViews {
  std::size_t count() const { return 2; }
  Image warp(std::size_t, Image image) const {
    for (std::uint8_t& level : image.rgb) level = static_cast<std::uint8_t>(100 - level);
    return image;
  }
  void finish(std::size_t view, std::vector<std::uint8_t>& pixels) const {
    for (std::uint8_t& level : pixels) level = static_cast<std::uint8_t>(level + view);
  }
};

// The left half is 10, the right half 20; tiles are the halves.
Preprocessing halves() {
  Preprocessing steps;
  steps.image_size = 2;
  steps.tiles = {4, 0};
  return steps;
}
frames::Frame two_halves() {
  Image image{8, 4, std::vector<std::uint8_t>(96, 10)};
  for (std::size_t i = 0; i < 96; ++i) image.rgb[i] = i % 24 < 12 ? 10 : 20;
  return frame_of(image, 1, 1);
}

TEST(Inputs, ComeViewByViewAndTileByTile) {
  const Preprocessing steps = halves();
  const PreparedFrame frame(steps, two_halves(), std::nullopt);
  EXPECT_EQ(frame.tiles(), 2u);
  std::vector<std::array<std::size_t, 4>> seen;
  CountedViews views;
  EXPECT_TRUE(frame.make_inputs(views, [&](Input&& input) {
    EXPECT_EQ(input.pixels, std::vector<std::uint8_t>(12, input.pixels.front()));
    seen.push_back({input.view, input.tile, input.tiles, input.pixels.front()});
    return true;
  }));
  const std::vector<std::array<std::size_t, 4>> expected{
      {0, 0, 2, 10}, {0, 1, 2, 20}, {1, 0, 2, 91}, {1, 1, 2, 81}, {2, 0, 2, 92}, {2, 1, 2, 82}};
  EXPECT_EQ(seen, expected);
}

TEST(Inputs, EndWhenNoMoreAreWanted) {
  const Preprocessing steps = halves();
  CountedViews views;
  int wanted = 3;
  EXPECT_FALSE(PreparedFrame(steps, two_halves(), std::nullopt).make_inputs(views, [&](Input&&) {
    return --wanted > 0;
  }));
  EXPECT_EQ(wanted, 0);
}

struct TileCase {
  std::string name;
  Tiling tiling;
  int width, height;
  std::vector<Rect> tiles;
  friend void PrintTo(const TileCase& tiles, std::ostream* out) { *out << tiles.name; }
};
class Tiles : public ::testing::TestWithParam<TileCase> {};

TEST_P(Tiles, StandWhereTheyShould) {
  const TileCase& given = GetParam();
  EXPECT_EQ(plan_tiles(given.tiling, given.width, given.height), given.tiles);
}

INSTANTIATE_TEST_SUITE_P(
    Table, Tiles,
    ::testing::Values(
        TileCase{"Off", {0, 0.25}, 100, 50, {{0, 0, 100, 50}}},
        TileCase{"SmallerThanATile", {128, 0.25}, 100, 50, {{0, 0, 100, 50}}},
        TileCase{"ExactlyATile", {50, 0.25}, 50, 50, {{0, 0, 50, 50}}},
        TileCase{"Fits", {50, 0}, 100, 50, {{0, 0, 50, 50}, {50, 0, 50, 50}}},
        TileCase{"LastEndsAtTheBorder",
                 {40, 0.25},
                 100,
                 40,
                 {{0, 0, 40, 40}, {30, 0, 40, 40}, {60, 0, 40, 40}}},
        TileCase{"BorderNotOnAStep",
                 {40, 0.25},
                 75,
                 45,
                 {{0, 0, 40, 40},
                  {30, 0, 40, 40},
                  {35, 0, 40, 40},
                  {0, 5, 40, 40},
                  {30, 5, 40, 40},
                  {35, 5, 40, 40}}},
        TileCase{"SmallerAlongOneEdge", {50, 0}, 60, 30, {{0, 0, 30, 30}, {30, 0, 30, 30}}}),
    [](const auto& test) { return test.param.name; });

TEST(TilesOfHugeFrames, AreRefusedBeyondAMillion) {
  EXPECT_THAT(message_of<DataError>([] {
                plan_tiles({8, 0.9}, 16000, 16000);
              }),
              HasSubstr("--tile-size"));
}

TEST(RecipeOfSteps, NamesOnlyWhatIsUsed) {
  Preprocessing steps;
  for (const char* key : {"mask", "crop", "spacing_mm", "tiles"})
    EXPECT_FALSE(to_json(steps).contains(key)) << key;
  steps.mask = std::make_shared<const Mask>(make_mask(gradient(2, 2)));
  steps.crop = {frames::CropRule::Kind::kFixed, {{{1}, {2}, {3}, {4}}}};
  steps.spacing_mm = 0.5;
  steps.tiles = {256, 0.25};
  const Json json = to_json(steps);
  EXPECT_EQ(json["mask"], steps.mask->digest);
  EXPECT_EQ(json["crop"], "1,2,3,4");
  EXPECT_EQ(json["spacing_mm"], 0.5);
  EXPECT_EQ(json["tiles"], (Json{{"size", 256}, {"overlap", 0.25}}));
}

}  // namespace
}  // namespace coldframe::preprocess

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "extract/preprocess/augment.h"

namespace coldframe::augment {
namespace {

Augmentation parsed(const std::string& list, std::size_t views = 4) {
  Augmentation augmentation;
  augmentation.views = views;
  parse_list(list, augmentation);
  return augmentation;
}

frames::Image ramp(int width, int height) {
  frames::Image image{width, height, {}};
  image.rgb.resize(static_cast<std::size_t>(width * height * 3));
  std::iota(image.rgb.begin(), image.rgb.end(), std::uint8_t{0});
  return image;
}

TEST(AugmentList, SingleNumbersSpanTheUsualRanges) {
  const Augmentation a =
      parsed("flip,vflip=0.25,rotate=10,scale=0.8,brightness=0.2,contrast=0.3,gamma=1,noise=0.02");
  EXPECT_EQ(a.flip, 0.5);
  EXPECT_EQ(a.vflip, 0.25);
  EXPECT_EQ(a.rotate, (Range{-10, 10}));
  EXPECT_EQ(a.scale, (Range{0.8, 1}));
  EXPECT_EQ(a.brightness, (Range{0.8, 1.2}));
  EXPECT_EQ(a.contrast, (Range{0.7, 1.3}));
  EXPECT_EQ(a.gamma, (Range{0.5, 2}));
  EXPECT_EQ(a.noise, (Range{0, 0.02}));
}

TEST(AugmentList, TwoNumbersAreTheRange) {
  const Augmentation a = parsed(" rotate = -5:15 , gamma=0.5:1 ");
  EXPECT_EQ(a.rotate, (Range{-5, 15}));
  EXPECT_EQ(a.gamma, (Range{0.5, 1}));
  EXPECT_FALSE(a.flip || a.scale || a.noise);
}

TEST(AugmentList, TheDefaultIsValid) {
  EXPECT_TRUE(parsed(kDefaultList).flip);
}

struct Refused {
  const char *list, *said;
};
class AugmentListRefuses : public ::testing::TestWithParam<Refused> {};

TEST_P(AugmentListRefuses, WhatCannotBeMeant) {
  try {
    parsed(GetParam().list);
    FAIL() << GetParam().list;
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr(GetParam().said));
  }
}

INSTANTIATE_TEST_SUITE_P(
    , AugmentListRefuses,
    ::testing::Values(Refused{"", "there is no ''"}, Refused{"flip,", "there is no ''"},
                      Refused{"rotat=10", "choose from flip, vflip, rotate"},
                      Refused{"Flip", "there is no 'Flip'"}, Refused{"flip=0", "probability"},
                      Refused{"flip=1.5", "probability"}, Refused{"flip=", "probability"},
                      Refused{"vflip=nan", "probability"}, Refused{"flip,flip", "twice"},
                      Refused{"noise=0.1,noise=0.2", "twice"}, Refused{"rotate", "degrees"},
                      Refused{"rotate=", "degrees"}, Refused{"rotate=-10", "degrees"},
                      Refused{"rotate=181", "degrees"}, Refused{"rotate=10:5", "degrees"},
                      Refused{"rotate=1:2:3", "degrees"}, Refused{"rotate=a", "degrees"},
                      Refused{"rotate=nan", "degrees"}, Refused{"scale=0", "area"},
                      Refused{"scale=0.5:1.1", "area"}, Refused{"scale=-1", "area"},
                      Refused{"brightness=1.1", "factors"}, Refused{"contrast=0:11", "factors"},
                      Refused{"gamma=10", "exponents"}, Refused{"gamma=0:1", "exponents"},
                      Refused{"noise=2", "deviation"}, Refused{"noise=inf", "deviation"}));

// Caches depend on what a seed gives: these numbers must never change.
TEST(Transform, IsTheSameForeverForASeed) {
  Augmentation a = parsed(kDefaultList);
  a.seed = 7;
  const Transform t = draw_transform(a, "exam-1", 2);
  EXPECT_FALSE(t.flip);
  EXPECT_TRUE(draw_transform(a, "exam-5", 1).flip);
  EXPECT_DOUBLE_EQ(t.angle, 3.3693472627070538);
  EXPECT_DOUBLE_EQ(t.side, 0.9706265952613364);
  EXPECT_DOUBLE_EQ(t.x, 0.8076713622652891);
  EXPECT_DOUBLE_EQ(t.brightness, 0.8514616353979544);
  EXPECT_DOUBLE_EQ(t.contrast, 0.919954748324185);
  EXPECT_DOUBLE_EQ(t.gamma, 0.838365737672596);
  EXPECT_DOUBLE_EQ(t.noise, 0.017747314345639375);
  EXPECT_EQ(t.noise_key, 3872728900373996330u);
}

TEST(Transform, DiffersBySeedExamAndViewOnly) {
  Augmentation a = parsed(kDefaultList);
  const auto angle = [&](const char* exam, std::size_t view) {
    return draw_transform(a, exam, view).angle;
  };
  const double first = angle("A", 1);
  EXPECT_EQ(angle("A", 1), first);
  EXPECT_NE(angle("B", 1), first);
  EXPECT_NE(angle("A", 2), first);
  a.views = 9;
  EXPECT_EQ(angle("A", 1), first);
  a.seed = 1;
  EXPECT_NE(angle("A", 1), first);
}

TEST(Transform, OnePartDoesNotDependOnWhatElseIsAskedFor) {
  const Augmentation all = parsed(kDefaultList), one = parsed("scale=0.8:1");
  for (std::size_t view = 1; view <= 4; ++view) {
    EXPECT_EQ(draw_transform(all, "A", view).side, draw_transform(one, "A", view).side);
    EXPECT_EQ(draw_transform(all, "A", view).x, draw_transform(one, "A", view).x);
    EXPECT_FALSE(draw_transform(one, "A", view).flip);
    EXPECT_EQ(draw_transform(one, "A", view).gamma, 1);
  }
}

TEST(Transform, FillsItsRanges) {
  const Augmentation a = parsed("flip=0.3,rotate=10,scale=0.25:1,gamma=0.5:2");
  double lowest = 10, highest = -10, flipped = 0, area = 0, log_gamma = 0;
  constexpr int kDraws = 4000;
  for (int i = 0; i < kDraws; ++i) {
    const Transform t = draw_transform(a, concat("exam", i), 1);
    lowest = std::min(lowest, t.angle);
    highest = std::max(highest, t.angle);
    flipped += t.flip;
    area += t.side * t.side;
    log_gamma += std::log(t.gamma);
    ASSERT_TRUE(t.x >= 0 && t.x < 1 && t.y >= 0 && t.y < 1);
  }
  EXPECT_GE(lowest, -10);
  EXPECT_LT(lowest, -9.9);
  EXPECT_LT(highest, 10);
  EXPECT_GT(highest, 9.9);
  EXPECT_NEAR(flipped / kDraws, 0.3, 0.03);
  EXPECT_NEAR(area / kDraws, 0.625, 0.02);
  EXPECT_NEAR(log_gamma / kDraws, 0, 0.03);
}

TEST(Warp, NothingAskedForIsTheSameImage) {
  const frames::Image image = ramp(7, 5), warped = warp({}, image);
  EXPECT_EQ(warped.width, 7);
  EXPECT_EQ(warped.rgb, image.rgb);
}

TEST(Warp, TakesImagesOfOnePixelAndOfOneRow) {
  Transform t;
  t.angle = 33;
  t.side = 0.1;
  t.x = t.y = 0.999999;
  for (const auto& [width, height] : {std::pair{1, 1}, std::pair{9, 1}, std::pair{1, 9}}) {
    for (const bool flip : {false, true}) {
      t.flip = flip;
      const frames::Image warped = warp(t, ramp(width, height));
      EXPECT_EQ(warped.rgb.size(), static_cast<std::size_t>(warped.width * warped.height * 3));
      EXPECT_GE(warped.width, 1);
    }
  }
}

TEST(ExamViews, LeaveLevelsAloneWhenNoneOfTheirChangesIsAskedFor) {
  ExamViews views(parsed("flip=1", 1), "A");
  frames::Image image = ramp(4, 3), twice = views.warp(1, views.warp(1, image));
  views.finish(1, twice.rgb);
  EXPECT_EQ(twice.rgb, image.rgb);
}

TEST(ExamViews, KeepOneCurveAndOneNoiseForAllFrames) {
  ExamViews views(parsed("brightness=0.2,contrast=0.2,noise=0.05", 2), "A");
  frames::Image first = views.warp(2, ramp(8, 8)),
                other = views.warp(2, {8, 8, std::vector<std::uint8_t>(8 * 8 * 3)});
  other.rgb = first.rgb;  // whatever its own mean was
  views.finish(2, first.rgb);
  views.finish(2, other.rgb);
  EXPECT_EQ(first.rgb, other.rgb);
  EXPECT_NE(first.rgb, ramp(8, 8).rgb);
}

TEST(ViewNames, CleanComesFirst) {
  EXPECT_EQ(view_names(parsed("flip", 2)), (std::vector<std::string>{"clean", "view1", "view2"}));
  EXPECT_EQ(view_names({}), (std::vector<std::string>{"clean"}));
}

}  // namespace
}  // namespace coldframe::augment

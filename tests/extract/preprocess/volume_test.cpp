// Resampled volumes, where blocks lie in them, and what each weighs. (tests/extract/test_volumes.py
// holds them to MONAI.)
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "common/cli/error.h"
#include "extract/preprocess/volume/blocks.h"
#include "extract/preprocess/volume/resampled_volume.h"
#include "tests/support/temporary_folder.h"

namespace coldframe::preprocess {
namespace {

using coldframe::testing::message_of;
using frames::ValueRange;
using frames::Volume;
using frames::VolumeGeometry;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pointwise;

constexpr ValueRange kLevels{0, 100};

// A line of values along the file's first axis, `mm` apart, towards right or left.
Volume line(const std::vector<double>& values, double mm) {
  VolumeGeometry geometry;
  geometry.size = {std::ssize(values), 1, 1};
  geometry.axes = {{{mm, 0, 0}, {0, 1, 0}, {0, 0, 1}}};
  geometry.places = {0};
  Volume volume(geometry);
  volume.set_plane(0, values);
  return volume;
}

VolumeRule rule_of(const Size3& block, double mm = 0, double overlap = 0) {
  VolumeRule rule;
  rule.block = block;
  if (mm > 0) rule.spacing_mm = {mm, 1, 1};
  rule.overlap = overlap;
  return rule;
}

std::vector<float> along(const Volume& volume, const VolumeGrid& grid, std::int64_t begin,
                         std::int64_t size) {
  std::vector<float> values(static_cast<std::size_t>(size));
  resample(volume, grid, kLevels, {begin, 0, 0}, {size, 1, 1}, values);
  return values;
}

TEST(Resample, InterpolatesBetweenVoxels) {
  const Volume volume = line({0, 10, 30, 70}, 3);
  const VolumeGrid grid(volume.geometry(), rule_of({4, 1, 1}, 1.5));
  EXPECT_EQ(grid.size()[0], 7);
  EXPECT_THAT(along(volume, grid, 0, 7),
              Pointwise(::testing::FloatEq(), {0.f, .05f, .1f, .2f, .3f, .5f, .7f}));
}

TEST(Resample, ReversesAxesAndPadsWithTheLowerEnd) {
  const Volume volume = line({10, 20, 40}, -1);
  const VolumeGrid grid(volume.geometry(), rule_of({4, 1, 1}));
  EXPECT_THAT(along(volume, grid, -1, 5),
              Pointwise(::testing::FloatEq(), {0.f, .4f, .2f, .1f, 0.f}));
  EXPECT_THAT(grid.at_mm({0, 0, 0}), ElementsAre(-2, 0, 0));
}

TEST(Resample, ClampsToTheWindowAndBlackensWhatIsNoNumber) {
  const Volume volume = line({-50, 50, 1e9, std::nan("")}, 1);
  const VolumeGrid grid(volume.geometry(), rule_of({4, 1, 1}));
  EXPECT_THAT(along(volume, grid, 0, 4), ElementsAre(0, .5, 1, 0));
}

TEST(Resample, EveryPartIsThatOfTheWhole) {
  VolumeGeometry geometry;
  geometry.size = {5, 6, 7};
  geometry.axes = {{{0, 0, 2}, {1.5, 0, 0}, {0, -1, 0}}};
  geometry.places = {0, 1, 2, 3, 4, 5, 6};
  Volume volume(geometry);
  std::vector<double> plane(30);
  for (std::size_t k = 0; k < 7; ++k) {
    for (std::size_t i = 0; i < 30; ++i) plane[i] = static_cast<double>((k * 37 + i * 11) % 100);
    volume.set_plane(k, plane);
  }
  VolumeRule rule = rule_of({1, 1, 1});
  rule.spacing_mm = {1, 1.2, 0.9};
  const VolumeGrid grid(volume.geometry(), rule);
  const Size3 size = grid.size();
  EXPECT_THAT(size, ElementsAre(8, 6, 10));
  std::vector<float> whole(static_cast<std::size_t>(voxels_of(size))), part(2 * 3 * 4);
  resample(volume, grid, kLevels, {0, 0, 0}, size, whole);
  resample(volume, grid, kLevels, {6, 2, 5}, {2, 3, 4}, part);
  for (std::int64_t x = 0; x < 2; ++x)
    for (std::int64_t y = 0; y < 3; ++y)
      for (std::int64_t z = 0; z < 4; ++z)
        EXPECT_EQ(part[static_cast<std::size_t>((x * 3 + y) * 4 + z)],
                  whole[static_cast<std::size_t>(((6 + x) * size[1] + 2 + y) * size[2] + 5 + z)]);
}

TEST(Grid, KeepsASpacingThatIsTheWantedOne) {
  const Volume volume = line({1, 2, 3}, 1.4995);
  EXPECT_EQ(VolumeGrid(volume.geometry(), rule_of({1, 1, 1}, 1.5)).axis(0).step, 1);
  const Volume fine = line({1, 2, 3}, 0.0015);
  EXPECT_NE(VolumeGrid(fine.geometry(), rule_of({1, 1, 1}, 0.001)).axis(0).step, 1);
}

TEST(Grid, RefusesWhatNoMemoryCouldName) {
  const Volume volume = line(std::vector<double>(2000, 1), 1000);
  EXPECT_THAT(message_of<DataError>([&] {
                VolumeGrid(volume.geometry(), rule_of({1, 1, 1}, 0.001));
              }),
              HasSubstr("voxels along one axis"));
}

TEST(Body, IsTheBoxOfWhatIsAboveTheWindow) {
  const Volume volume = line({0, 0, 5, 0, 70, 0}, 1);
  VolumeGrid grid(volume.geometry(), rule_of({1, 1, 1}));
  crop_to_body(volume, kLevels, grid);
  EXPECT_THAT(grid.size(), ElementsAre(3, 1, 1));
  EXPECT_THAT(grid.at_mm({0, 0, 0}), ElementsAre(2, 0, 0));
  EXPECT_THAT(along(volume, grid, 0, 3), Pointwise(::testing::FloatEq(), {.05f, 0.f, .7f}));
  EXPECT_THROW(crop_to_body(volume, {100, 200}, grid), DataError);
}

std::vector<std::int64_t> starts(std::int64_t volume, std::int64_t block, double overlap) {
  const BlockGrid grid({volume, 1, 1}, rule_of({block, 1, 1}, 0, overlap));
  std::vector<std::int64_t> begins;
  for (std::size_t i = 0; i < grid.count(); ++i) begins.push_back(grid.begin(i)[0]);
  return begins;
}

TEST(Blocks, LieAsSlidingWindowInferenceHasThem) {
  EXPECT_THAT(starts(96, 96, 0.25), ElementsAre(0));
  EXPECT_THAT(starts(97, 96, 0.25), ElementsAre(0, 1));
  EXPECT_THAT(starts(200, 96, 0.25), ElementsAre(0, 72, 104));
  EXPECT_THAT(starts(20, 10, 0), ElementsAre(0, 10));
  EXPECT_THAT(starts(12, 10, 0.99), ElementsAre(0, 1, 2));
  EXPECT_THAT(starts(5, 10, 0.25), ElementsAre(-2));
}

TEST(Blocks, SayHowMuchOfThemIsPadding) {
  const BlockGrid grid({5, 4, 30}, rule_of({10, 8, 10}));
  EXPECT_EQ(grid.count(), 3u);
  EXPECT_DOUBLE_EQ(grid.padded_fraction(1), 0.75);
  EXPECT_THAT(grid.begin(2), ElementsAre(-2, -2, 20));
}

class Weights : public ::testing::TestWithParam<Blend> {};

// A map of ones has the mean 1, whatever the blocks and however coarse the map.
TEST_P(Weights, AreAMean) {
  for (const Size3& volume : {Size3{40, 33, 21}, Size3{7, 33, 21}, Size3{16, 16, 16}})
    for (const Size3& map : {Size3{16, 16, 16}, Size3{4, 8, 2}, Size3{1, 1, 1}}) {
      VolumeRule rule = rule_of({16, 16, 16}, 0, 0.4);
      rule.blend = GetParam();
      const BlockGrid grid(volume, rule);
      double sum = 0;
      for (std::size_t block = 0; block < grid.count(); ++block) {
        const std::vector<float> weights = grid.map_weights(block, map);
        ASSERT_EQ(std::ssize(weights), voxels_of(map));
        sum = std::accumulate(weights.begin(), weights.end(), sum);
      }
      EXPECT_NEAR(sum / static_cast<double>(grid.count()), 1, 1e-5);
    }
}

INSTANTIATE_TEST_SUITE_P(Blends, Weights, ::testing::Values(Blend::kConstant, Blend::kGaussian));

TEST(Orientation, HasOneLetterOfEachAxis) {
  for (const char* word : {"RAS", "LPS", "SPL", "IAR"}) EXPECT_NO_THROW(require_orientation(word));
  for (const char* word : {"", "RA", "RRS", "RLS", "ras", "RASX"})
    EXPECT_THROW(require_orientation(word), ConfigError) << word;
}

}  // namespace
}  // namespace coldframe::preprocess

#include <gtest/gtest.h>

#include <cmath>

#include "extract/pipeline/feature_sink.h"

namespace coldframe::extract {
namespace {

cache::ExamInfo exam(const std::string& id, std::vector<std::uint8_t> present) {
  cache::ExamInfo info;
  info.id = id;
  info.present = std::move(present);
  return info;
}

class Assembly : public ::testing::Test {
 protected:
  std::vector<cache::ExamFeatures> released;
  ExamAssembly assembly{2};

  const cache::ExamFeatures& exam_at(std::size_t i) { return released.at(i); }
  void take(ExamAssembly::Whole&& exam) {
    if (exam) released.push_back(std::move(*exam));
  }
  void feature(std::size_t task, std::size_t slot, float value, std::size_t tiles = 1) {
    take(assembly.add_feature({task, slot, tiles}, std::vector{value, -value}));
  }
};

TEST_F(Assembly, ReleasesAnExamWhenItsLastFeatureIsThereWhateverTheOrder) {
  feature(0, 1, 2);
  take(assembly.add_exam(0, exam("first", {1, 1})));
  feature(1, 0, 5);
  EXPECT_TRUE(released.empty());
  take(assembly.add_exam(1, exam("second", {1})));
  ASSERT_EQ(released.size(), 1u);
  feature(0, 0, 1);
  ASSERT_EQ(released.size(), 2u);
  EXPECT_EQ(exam_at(0).info.id, "second");
  EXPECT_EQ(exam_at(0).views.at(0).values, (std::vector<float>{5, -5}));
  EXPECT_EQ(exam_at(1).views.at(0).values, (std::vector<float>{1, -1, 2, -2}));
}

TEST_F(Assembly, MissingFramesKeepTheirSlotAsNaN) {
  feature(0, 2, 3);
  take(assembly.add_exam(0, exam("gap", {0, 0, 1})));
  ASSERT_EQ(released.size(), 1u);
  const auto& values = exam_at(0).views.at(0).values;
  ASSERT_EQ(values.size(), 6u);
  EXPECT_TRUE(std::isnan(values[0]) && std::isnan(values[3]));
  EXPECT_EQ(values[4], 3);
}

TEST_F(Assembly, ThumbnailsGoWithTheirExam) {
  take(assembly.add_exam(0, exam("first", {1}), {"one"}));
  take(assembly.add_exam(1, exam("second", {1, 0}), {"two", ""}));
  feature(1, 0, 2);
  feature(0, 0, 1);
  ASSERT_EQ(released.size(), 2u);
  EXPECT_EQ(exam_at(0).thumbnails, (std::vector<std::string>{"two", ""}));
  EXPECT_EQ(exam_at(1).thumbnails, (std::vector<std::string>{"one"}));
}

TEST_F(Assembly, TilesAreAveragedOverTheirFrame) {
  feature(0, 0, 1, 3);
  feature(0, 1, 10);
  take(assembly.add_exam(0, exam("tiled", {1, 1, 0})));
  feature(0, 0, 2, 3);
  EXPECT_TRUE(released.empty());
  feature(0, 0, 6, 3);
  ASSERT_EQ(released.size(), 1u);
  const auto& values = exam_at(0).views.at(0).values;
  EXPECT_EQ(std::vector<float>(values.begin(), values.begin() + 4),
            (std::vector<float>{3, -3, 10, -10}));
  EXPECT_TRUE(std::isnan(values[4]));
}

TEST_F(Assembly, EveryViewIsThereBeforeAnExamIsReleased) {
  assembly = ExamAssembly(2, {"clean", "view1"});
  const auto add = [&](std::size_t slot, std::size_t view, float value, std::size_t tiles) {
    take(assembly.add_feature({0, slot, tiles, view}, std::vector{value, -value}));
  };
  add(0, 1, 10, 2);
  add(0, 0, 1, 2);
  add(0, 0, 3, 2);
  add(2, 0, 4, 1);
  take(assembly.add_exam(0, exam("two views", {1, 0, 1})));
  add(2, 1, 40, 1);
  EXPECT_TRUE(released.empty());
  add(0, 1, 30, 2);
  ASSERT_EQ(released.size(), 1u);
  const auto& views = exam_at(0).views;
  ASSERT_EQ(views.size(), 2u);
  EXPECT_EQ(views[0].view, "clean");
  EXPECT_EQ(views[1].view, "view1");
  EXPECT_EQ(std::vector<float>(views[0].values.begin(), views[0].values.begin() + 2),
            (std::vector<float>{2, -2}));
  EXPECT_EQ(std::vector<float>(views[1].values.begin(), views[1].values.begin() + 2),
            (std::vector<float>{20, -20}));
  EXPECT_TRUE(std::isnan(views[1].values[2]));
  EXPECT_EQ(views[1].values[4], 40);
}

TEST_F(Assembly, AMeanOfManyTilesIsThatOfFloat64) {
  constexpr std::size_t kTiles = 5000;
  double sum = 0;
  for (std::size_t i = 0; i < kTiles; ++i) {
    const float value = 0.1f + static_cast<float>(i % 7);
    sum += value;
    feature(0, 0, value, kTiles);
  }
  take(assembly.add_exam(0, exam("large", {1})));
  ASSERT_EQ(released.size(), 1u);
  EXPECT_EQ(exam_at(0).views.at(0).values[0],
            static_cast<float>(sum / static_cast<double>(kTiles)));
}

TEST_F(Assembly, NothingStaysOfAnExamThatIsDropped) {
  feature(0, 0, 1);
  feature(1, 0, 2);
  EXPECT_EQ(assembly.unfinished(), 2u);
  assembly.drop(0);
  EXPECT_EQ(assembly.unfinished(), 1u);
  feature(0, 1, 3);  // of a batch that was under way
  assembly.add_pixels({0, 1}, {});
  EXPECT_EQ(assembly.unfinished(), 1u);
}

// 1, 2, -1 as float16.
const std::vector<std::byte> kHalves = {std::byte{0x00}, std::byte{0x3c}, std::byte{0x00},
                                        std::byte{0x40}, std::byte{0x00}, std::byte{0xbc}};

TEST_F(Assembly, TokensBehindAFeatureBecomeItsCut) {
  const cache::Cut cut{4, {3, 1}};
  assembly = ExamAssembly(2, {"clean"}, cut);
  const std::vector row{7.0f, 8.0f, 1.0f, 2.0f, -1.0f};
  EXPECT_EQ(assembly.stored_tokens(row), kHalves);
  take(assembly.add_feature({0, 1}, row, assembly.stored_tokens(row)));
  take(assembly.add_exam(0, exam("tokens", {0, 1})));
  ASSERT_EQ(released.size(), 1u);
  const cache::ViewFeatures& view = exam_at(0).views.at(0);
  EXPECT_EQ(view.values[2], 7);
  ASSERT_EQ(view.cut.size(), 2 * cut.row_bytes());
  EXPECT_TRUE(std::equal(kHalves.begin(), kHalves.end(), view.cut.begin() + 6));
}

TEST_F(Assembly, PixelsOfEachViewBecomeItsCut) {
  const cache::Cut cut{0, {1, 1, 3}};
  assembly = ExamAssembly(2, {"clean", "view1"}, cut);
  const auto add = [&](const FeatureIndex& place, int first) {
    std::vector<std::byte> pixels;
    for (int i = first; i < first + 3; ++i) pixels.push_back(static_cast<std::byte>(i));
    assembly.add_pixels(place, std::move(pixels));
    take(assembly.add_feature(place, std::vector{1.0f, 2.0f}));
  };
  add({0, 0, 1, 1}, 1);
  add({0, 1, 1, 0}, 14);
  add({0, 1, 1, 1}, 4);
  add({0, 0, 1, 0}, 11);
  take(assembly.add_exam(0, exam("pixels", {1, 1})));
  ASSERT_EQ(released.size(), 1u);
  const auto levels = [&](std::size_t view) {
    std::vector<int> found;
    for (const std::byte level : exam_at(0).views.at(view).cut)
      found.push_back(std::to_integer<int>(level));
    return found;
  };
  EXPECT_EQ(levels(0), (std::vector{11, 12, 13, 14, 15, 16}));
  EXPECT_EQ(levels(1), (std::vector{1, 2, 3, 4, 5, 6}));
}

}  // namespace
}  // namespace coldframe::extract

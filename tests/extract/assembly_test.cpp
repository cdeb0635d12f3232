#include <gtest/gtest.h>

#include <cmath>

#include "extract/exam_assembly.h"

namespace coldframe {
namespace {

cache::ExamInfo exam(const std::string& id, std::vector<std::uint8_t> present) {
  cache::ExamInfo info;
  info.id = id;
  info.present = std::move(present);
  return info;
}

class Assembly : public ::testing::Test {
 protected:
  std::vector<Finished> released;
  ExamAssembly assembly{2,
                        [this](Finished&& finished) { released.push_back(std::move(finished)); }};

  const cache::ExamFeatures& exam_at(std::size_t i) {
    return std::get<cache::ExamFeatures>(released.at(i));
  }
  void feature(std::size_t task, std::size_t slot, float value) {
    assembly.add_feature(task, slot, std::vector{value, -value});
  }
};

TEST_F(Assembly, ReleasesAnExamWhenItsLastFeatureIsThereWhateverTheOrder) {
  feature(0, 1, 2);
  assembly.add_exam(0, exam("first", {1, 1}));
  feature(1, 0, 5);
  EXPECT_TRUE(released.empty());
  assembly.add_exam(1, exam("second", {1}));
  ASSERT_EQ(released.size(), 1u);
  feature(0, 0, 1);
  ASSERT_EQ(released.size(), 2u);
  EXPECT_EQ(exam_at(0).info.id, "second");
  EXPECT_EQ(exam_at(0).views.at(0).values, (std::vector<float>{5, -5}));
  EXPECT_EQ(exam_at(1).views.at(0).values, (std::vector<float>{1, -1, 2, -2}));
}

TEST_F(Assembly, MissingFramesKeepTheirSlotAsNaN) {
  feature(0, 2, 3);
  assembly.add_exam(0, exam("gap", {0, 0, 1}));
  ASSERT_EQ(released.size(), 1u);
  const auto& values = exam_at(0).views.at(0).values;
  ASSERT_EQ(values.size(), 6u);
  EXPECT_TRUE(std::isnan(values[0]) && std::isnan(values[3]));
  EXPECT_EQ(values[4], 3);
}

TEST_F(Assembly, AFailureDropsEarlyAndLateFeatures) {
  feature(0, 0, 1);
  assembly.add_failure(0, {"broken", 0, 0, "file", "why"});
  feature(0, 1, 2);
  feature(1, 0, 4);
  assembly.add_exam(1, exam("fine", {1}));
  ASSERT_EQ(released.size(), 2u);
  EXPECT_EQ(std::get<cache::Failure>(released[0]).reason, "why");
  EXPECT_EQ(exam_at(1).info.id, "fine");
}

}  // namespace
}  // namespace coldframe

// Earlier exams of a patient are read before each exam: features, cut, thumbnails and times.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/cache/support.h"
#include "train_temporal/data/sequence_reader.h"

namespace coldframe::temporal {
namespace {

using Rows = std::vector<std::byte>;

template <typename Values>
Values both(Values first, const Values& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

class JoinedExamsTest : public ::testing::TestWithParam<cache::Cut> {
 protected:
  JoinedExamsTest() {
    std::vector<cache::ExamFeatures> exams;
    for (std::size_t i = 0; i < 3; ++i) {
      std::vector<std::string> phases;
      exams.push_back(
          cache::make_exam("E" + std::to_string(i), i, 1 + 3 * i, 5, {"clean", "view1"}));
      for (std::size_t t = 0; t < exams.back().info.frames(); ++t)
        phases.push_back(std::to_string(i + t));
      exams.back().info.frame_columns = {{"phase", phases}};
      cache::add_thumbnails(exams.back());
      cache::add_cut(exams.back(), GetParam());
    }
    cache::WriterOptions options = cache::one_exam_a_shard();
    options.storage = GetParam().storage;
    cache::write_cache(folder_ / "x.cache", exams, options, GetParam());
  }

  const cache::MemoryFolder folder_;
};

TEST_P(JoinedExamsTest, HaveTheRowsOfEachInTurn) {
  const std::vector<std::size_t> order = {2, 0, 1, 2};
  SequenceReader cache(folder_ / "x.cache");
  std::vector<Rows> features(3), cuts(3);
  const auto keep = [](std::vector<Rows>& all) {
    return [&](std::size_t exam, std::span<const std::byte> rows) {
      all[exam].assign(rows.begin(), rows.end());
    };
  };
  cache.scan_stored("view1", order, keep(features));
  cache.scan_cut(1, order, keep(cuts));
  const std::vector<std::string> pictures = both(cache.thumbnails(0), cache.thumbnails(2));

  cache.join_exams({{0}, {1}, {0, 2}}, std::vector<double>{100, 200, 300});
  std::vector<std::size_t> seen;
  const auto expect_joined = [&](const std::vector<Rows>& alone) {
    return [&](std::size_t exam, std::span<const std::byte> rows) {
      EXPECT_TRUE(std::ranges::equal(rows, exam == 2 ? both(alone[0], alone[2]) : alone[exam]));
      seen.push_back(exam);
    };
  };
  cache.scan_stored("view1", order, expect_joined(features));
  cache.scan_cut(1, order, expect_joined(cuts));
  EXPECT_EQ(seen, both(order, order));
  EXPECT_EQ(cache.thumbnails(2), pictures);
}

TEST_P(JoinedExamsTest, HaveTheFactsOfEachFrame) {
  SequenceReader cache(folder_ / "x.cache");
  const std::vector<cache::ExamInfo> alone = cache.exams();
  cache.join_exams({{0}, {1}, {0, 2}}, std::vector<double>{100, 200, 300});
  const cache::ExamInfo &first = alone[0], &last = alone[2], &joined = cache.exams()[2];
  std::vector<double> times = last.time_s;
  for (double& time : times) time += 200;
  EXPECT_THAT(joined.time_s,
              ::testing::Pointwise(::testing::NanSensitiveDoubleEq(), both(first.time_s, times)));
  EXPECT_EQ(joined.present, both(first.present, last.present));
  EXPECT_EQ(joined.frame_source, both(first.frame_source, last.frame_source));
  EXPECT_TRUE(joined.frame_index.empty());
  EXPECT_EQ(joined.frame_columns.at(0).values,
            both(first.frame_columns[0].values, last.frame_columns[0].values));
  EXPECT_EQ(cache.exams()[1].time_s, alone[1].time_s);
  EXPECT_EQ(cache.parts_of(2), (std::vector<std::size_t>{0, 2}));
  EXPECT_EQ(present_frames(cache.alone(2)) + present_frames(cache.alone(0)),
            static_cast<std::size_t>(std::ranges::count(joined.present, 1)));
}

INSTANTIATE_TEST_SUITE_P(All, JoinedExamsTest,
                         ::testing::Values(cache::Cut{3, {4, 5}, DType::kFp16},
                                           cache::Cut{3, {4, 5}, DType::kFp32},
                                           cache::Cut{0, {12, 10, 3}, DType::kFp16}));

}  // namespace
}  // namespace coldframe::temporal

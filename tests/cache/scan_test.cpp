// Going through many exams at once, and loading less of the metadata.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "common/cli/error.h"
#include "tests/cache/support.h"

namespace coldframe::cache {
namespace {

class Scan : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    for (std::uint64_t i = 0; i < 40; ++i)
      exams_.push_back(make_exam(std::to_string(i), i, 1 + i * 7 % 11, 24, {"clean", "flip"}));
    WriterOptions options;
    options.storage = GetParam();
    options.max_shard_exams = 9;
    write_cache(folder_ / "x.cache", exams_, options);
  }
  MemoryFolder folder_;
  std::vector<ExamFeatures> exams_;
};

TEST_P(Scan, GivesEveryExamThatWasAskedForInThatOrder) {
  const CacheReader cache(folder_ / "x.cache");
  const std::vector<std::vector<std::size_t>> orders = {
      {}, {7}, {0, 1, 2, 8, 9, 10, 39}, {39, 3, 4, 4, 0}, {8, 9, 10, 11, 12, 13, 14, 15, 16, 17}};
  for (const std::vector<std::size_t>& order : orders) {
    std::vector<std::size_t> visited;
    cache.scan("flip", order, [&](std::size_t exam, std::span<const float> features) {
      visited.push_back(exam);
      const std::vector<float> expected = cache.features(exam, "flip");
      ASSERT_EQ(features.size(), expected.size());
      EXPECT_EQ(std::memcmp(features.data(), expected.data(), features.size_bytes()), 0) << exam;
    });
    EXPECT_EQ(visited, order);
  }
  EXPECT_THROW(cache.scan("other", orders[1], [](std::size_t, std::span<const float>) {}),
               CacheError);
}

TEST_P(Scan, EndsWithTheErrorOfItsBody) {
  const CacheReader cache(folder_ / "x.cache");
  const std::vector<std::size_t> order{1, 2, 3};
  EXPECT_THROW(cache.scan("clean", order,
                          [](std::size_t, std::span<const float>) { throw DataError("enough"); }),
               DataError);
}

TEST_P(Scan, WithoutSourcesAllElseIsThere) {
  const CacheReader cache(folder_ / "x.cache", Detail::kWithoutSources);
  ASSERT_EQ(cache.exams().size(), exams_.size());
  for (std::size_t i = 0; i < exams_.size(); ++i) {
    ExamInfo expected = exams_[i].info;
    expected.frame_source.clear();
    expected.frame_index.clear();
    expected.source_stamp.clear();
    expected.source_digest.clear();
    expect_equal(cache.exams()[i], expected);
  }
}

INSTANTIATE_TEST_SUITE_P(BothStorages, Scan, ::testing::Values(DType::kFp16, DType::kFp32),
                         [](const auto& given) {
                           return given.param == DType::kFp16 ? "Float16" : "Float32";
                         });

}  // namespace
}  // namespace coldframe::cache

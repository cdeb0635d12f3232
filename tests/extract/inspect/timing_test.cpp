#include "extract/inspect/survey.h"

#include <gtest/gtest.h>

#include <vector>

namespace coldframe::extract::dry_run {
namespace {

struct TimingCase {
  const char* name;
  std::vector<double> times;
  TimingKind kind;
  double span, interval;  // NaN: unknown
  std::size_t duplicate = 0, decreasing = 0, at_once = 1;
};

class Times : public ::testing::TestWithParam<TimingCase> {};

void expect_same(double found, double expected) {
  if (std::isnan(expected))
    EXPECT_TRUE(std::isnan(found)) << found;
  else
    EXPECT_NEAR(found, expected, 1e-12);
}

TEST_P(Times, AreDescribed) {
  const TimingCase& given = GetParam();
  const Timing timing = describe_times(given.times);
  EXPECT_EQ(timing.kind, given.kind);
  expect_same(timing.span_s, given.span);
  expect_same(timing.interval_s, given.interval);
  EXPECT_EQ(timing.duplicate, given.duplicate);
  EXPECT_EQ(timing.decreasing, given.decreasing);
  EXPECT_EQ(timing.at_once, given.at_once);
}

INSTANTIATE_TEST_SUITE_P(
    Table, Times,
    ::testing::Values(
        TimingCase{"Unknown", {NAN, NAN}, TimingKind::kUnknown, NAN, NAN},
        TimingCase{"None", {}, TimingKind::kUnknown, NAN, NAN},
        TimingCase{"Single", {0}, TimingKind::kSingle, 0, NAN},
        TimingCase{"Partly", {0, NAN, 4}, TimingKind::kPartlyKnown, 4, 4},
        TimingCase{"Constant", {0, 2, 4, 6}, TimingKind::kConstant, 6, 2},
        TimingCase{"Milliseconds", {0, 0.033, 0.067, 0.1}, TimingKind::kConstant, 0.1, 0.033},
        TimingCase{"Uneven", {0, 1, 5}, TimingKind::kUneven, 5, 2.5},
        TimingCase{"Duplicate", {0, 0, 5, 10}, TimingKind::kUneven, 10, 5, 1},
        TimingCase{"Decreasing", {0, 5, 4, 9}, TimingKind::kUneven, 9, 5, 0, 1},
        TimingCase{"Volumes", {0, 0, 0, 2, 2, 2, 4, 4, 4}, TimingKind::kConstant, 4, 2, 6, 0, 3},
        TimingCase{"UnevenVolumes", {0, 0, 1, 1, 5, 5}, TimingKind::kUneven, 5, 2.5, 3, 0, 2},
        TimingCase{"UnlikeVolumes", {0, 0, 2, 2, 4}, TimingKind::kUneven, 4, 2, 2},
        TimingCase{"PartlyKnownVolumes", {0, 0, 2, 2, NAN}, TimingKind::kPartlyKnown, 2, 2, 2},
        TimingCase{"AllAtOneTime", {3, 3, 3}, TimingKind::kSingle, 0, NAN, 2, 0, 3}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace coldframe::extract::dry_run

#include "train_temporal/commands/benchmark.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace coldframe::temporal {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Benchmark, SaysOfWhichFitsTheFirstEpochAloneWasTimed) {
  TrainBenchmark benchmark;
  benchmark.kinds = {{"tuned", 6, 700, 1}, {"frozen", 3, 12, 40}, {"summary", 3, 2}};
  EXPECT_THAT(to_table(benchmark),
              HasSubstr("; of tuned the first epoch alone was timed, which takes longer"));
  EXPECT_EQ(to_json(benchmark)["kinds"][0]["epochs_timed"], 1);
  benchmark.kinds[0].epochs = 2;
  EXPECT_THAT(to_table(benchmark), Not(HasSubstr("first epoch")));
}

}  // namespace
}  // namespace coldframe::temporal

#include "train_temporal/evaluate/intervals.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

namespace coldframe::temporal {
namespace {

TEST(DrawPatients, DrawsWithinStrataAndAsManyAsThereAre) {
  const std::vector<std::vector<std::size_t>> strata = {{0, 1, 2, 3, 4}, {5, 6, 7}, {}};
  std::set<std::vector<std::uint32_t>> distinct;
  std::vector<double> total(8, 0);
  for (std::uint64_t resample = 0; resample < 2000; ++resample) {
    const auto drawn = draw_patients(strata, 8, 3, resample);
    EXPECT_EQ(std::accumulate(drawn.begin(), drawn.begin() + 5, 0u), 5u);
    EXPECT_EQ(std::accumulate(drawn.begin() + 5, drawn.end(), 0u), 3u);
    for (std::size_t p = 0; p < 8; ++p) total[p] += drawn[p];
    distinct.insert(drawn);
  }
  for (double count : total) EXPECT_NEAR(count, 2000, 150);
  EXPECT_GT(distinct.size(), 500u);
  EXPECT_EQ(draw_patients(strata, 8, 3, 17), draw_patients(strata, 8, 3, 17));
  EXPECT_NE(draw_patients(strata, 8, 4, 17), draw_patients(strata, 8, 3, 17));
}

}  // namespace
}  // namespace coldframe::temporal

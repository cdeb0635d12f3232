#include "common/threads/threads.h"

#include <gtest/gtest.h>

#include <numeric>
#include <stdexcept>
#include <string>

namespace coldframe {
namespace {

TEST(ParallelFor, TakesEveryTurnOnce) {
  for (const std::size_t threads : {0u, 1u, 2u, 7u}) {
    std::vector<int> turns(1000);
    parallel_for(
        turns.size(), [&](std::size_t i) { ++turns[i]; }, threads);
    EXPECT_EQ(std::count(turns.begin(), turns.end(), 1), 1000) << threads;
  }
  parallel_for(0, [](std::size_t) { FAIL(); });
}

TEST(ParallelFor, ReportsTheLowestOfTheErrorsThatHappened) {
  for (int repeat = 0; repeat < 20; ++repeat) {
    try {
      parallel_for(
          8, [](std::size_t i) { throw std::runtime_error(std::to_string(i)); }, 8);
      FAIL() << "no error came through";
    } catch (const std::runtime_error& error) {
      EXPECT_LT(std::stoi(error.what()), 8);
    }
  }
  EXPECT_THROW(parallel_for(
                   100,
                   [](std::size_t i) {
                     if (i == 99) throw std::runtime_error("late");
                   },
                   2),
               std::runtime_error);
}

}  // namespace
}  // namespace coldframe

#include "common/text/timestamp.h"

#include <gtest/gtest.h>

#include <cmath>

namespace coldframe {
namespace {

using Numbers = std::vector<std::size_t>;

TEST(Instants, JoinFramesOfOneTime) {
  const std::vector<double> times{10, 10, 20, 20.0005, 30, 40};
  EXPECT_EQ(instants_of(times, Numbers{0, 1, 0, 1, 1, 0}), (Numbers{0, 0, 1, 1, 2, 3}));
}

// One stream behind the other, or frame by frame: the same rows are the same instants.
TEST(Instants, PairFramesOfEqualTimesByTheirRows) {
  const std::vector<double> equal{5, 5, 5, 5};
  EXPECT_EQ(instants_of(equal, Numbers{0, 1, 0, 1}), (Numbers{0, 0, 1, 1}));
  EXPECT_EQ(instants_of(equal, Numbers{0, 0, 1, 1}), (Numbers{0, 1, 0, 1}));
  const std::vector<double> times{5, 5, 9, 5, 9};
  EXPECT_EQ(instants_of(times, Numbers{0, 0, 0, 1, 1}), (Numbers{0, 1, 2, 0, 2}));
}

TEST(Instants, GoByTheOrderWhereATimeIsUnknown) {
  EXPECT_EQ(instants_of(std::vector<double>{1, std::nan(""), 1, 1}, Numbers{0, 0, 1, 0}),
            (Numbers{0, 1, 0, 2}));
  EXPECT_TRUE(instants_of({}, {}).empty());
}

}  // namespace
}  // namespace coldframe

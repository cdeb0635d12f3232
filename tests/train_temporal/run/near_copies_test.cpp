#include "train_temporal/run/near_copies.h"

#include <gtest/gtest.h>

#include <numeric>

namespace coldframe::temporal {
namespace {

// Frames that lie around their exam, [n, T, D], of standard deviations 0.5 and 1.
torch::Tensor made_frames(std::int64_t exams, std::int64_t frames, std::int64_t features) {
  return torch::randn({exams, 1, features}) + 0.5 * torch::randn({exams, frames, features});
}

FrameMoments moments(const torch::Tensor& frames) {
  return {frames.mean(1), frames.var(1, /*unbiased=*/false)};
}

// A patient for each exam.
std::vector<std::size_t> patients(const torch::Tensor& frames) {
  std::vector<std::size_t> numbers(static_cast<std::size_t>(frames.size(0)));
  std::iota(numbers.begin(), numbers.end(), std::size_t{0});
  return numbers;
}

TEST(NearCopies, AnExamThatWasStoredTwiceIsFound) {
  torch::manual_seed(1);
  const torch::Tensor frames = made_frames(60, 6, 32);
  EXPECT_TRUE(near_copies(moments(frames), patients(frames)).empty());
  const torch::Tensor again = frames.slice(0, 7, 8) + 0.1 * torch::randn({1, 6, 32});
  const torch::Tensor both = torch::cat({frames, again});
  const auto found = near_copies(moments(both), patients(both));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].a, 7u);
  EXPECT_EQ(found[0].b, 60u);
  EXPECT_LT(found[0].difference, 0.1);
  auto of_one = patients(both);
  of_one[60] = 7;
  EXPECT_TRUE(near_copies(moments(both), of_one).empty()) << "copies within a patient do no harm";
}

TEST(NearCopies, CopiesOfMostExamsAreFound) {
  torch::manual_seed(5);
  const torch::Tensor frames = made_frames(40, 6, 32);
  for (const std::int64_t copied : {12, 24, 40}) {
    const torch::Tensor again = frames.slice(0, 0, copied) + 0.1 * torch::randn({copied, 6, 32});
    const torch::Tensor both = torch::cat({frames, again});
    const auto found = near_copies(moments(both), patients(both));
    EXPECT_EQ(std::ssize(found), copied);
    for (const NearCopies& pair : found) EXPECT_EQ(pair.b, pair.a + 40);
  }
}

TEST(NearCopies, TwoExamsOfARareDeviceAreNone) {
  torch::manual_seed(2);
  const torch::Tensor frames = made_frames(60, 6, 32);
  frames.slice(0, 3, 5) += 40;
  EXPECT_TRUE(near_copies(moments(frames), patients(frames)).empty());
}

TEST(NearCopies, ExamsOfOneDeviceAreNone) {
  torch::manual_seed(3);
  const torch::Tensor frames = made_frames(60, 6, 32) + 100;  // cosines of 0.9999
  frames.slice(0, 0, 30) += 5;
  EXPECT_TRUE(near_copies(moments(frames), patients(frames)).empty());
}

TEST(NearCopies, ChanceMakesFewOfFewFeatures) {
  std::size_t cohorts = 0;
  for (int seed = 0; seed < 60; ++seed) {
    torch::manual_seed(seed);
    const torch::Tensor frames = made_frames(40, 3, 4);
    cohorts += !near_copies(moments(frames), patients(frames)).empty();
  }
  EXPECT_LE(cohorts, 8u);  // of 60 at 5 %: more would be 1 in 300
}

TEST(NearCopies, EqualExamsAndFewExamsAreLeftOut) {
  torch::manual_seed(4);
  const torch::Tensor few = made_frames(5, 6, 32);
  const torch::Tensor twice = torch::cat({few, few});
  EXPECT_TRUE(near_copies(moments(few), patients(few)).empty());
  EXPECT_TRUE(near_copies(moments(twice), patients(twice)).empty());
}

}  // namespace
}  // namespace coldframe::temporal

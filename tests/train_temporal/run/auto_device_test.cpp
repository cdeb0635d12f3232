#include "train_temporal/run/devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "common/cli/error.h"
#include "tests/train_temporal/made_data.h"

namespace coldframe::temporal {
namespace {

using ::testing::IsSubsetOf;

const torch::Device kGpu(torch::kCUDA, 0), kCpu(torch::kCPU);

// Among a made-up GPU and the CPU, whose steps are given.
QuickestDevice choose(const std::function<double()>& gpu, const std::function<double()>& cpu) {
  return quickest_device(
      {{"cuda:0 (made up)", {kGpu}}, {"cpu (here)", {kCpu}}},
      [&](const auto& devices) { return devices.front().is_cuda() ? gpu() : cpu(); });
}

std::function<double()> takes(double seconds) {
  return [=] { return seconds; };
}

double fails() {
  throw c10::OutOfMemoryError({"", "", 0}, "CUDA out of memory\nwith a stack behind it");
}

TEST(AutoDevice, TheQuickerOneIsTaken) {
  const QuickestDevice slow = choose(takes(0.004), takes(0.0006));
  EXPECT_EQ(slow.devices(), std::vector{kCpu});
  EXPECT_EQ(slow.text(),
            "device auto: cuda:0 (made up) 4.00 ms a step, cpu (here) 0.60 ms a step: cpu");
  const QuickestDevice quick = choose(takes(0.0004), takes(0.0006));
  EXPECT_EQ(quick.devices(), std::vector{kGpu});
  EXPECT_EQ(quick.text(),
            "device auto: cuda:0 (made up) 0.40 ms a step, cpu (here) 0.60 ms a step: cuda:0");
  EXPECT_EQ(to_json(quick), Json({{"cuda:0 (made up)", 0.0004}, {"cpu (here)", 0.0006}}));
}

TEST(AutoDevice, AGpuThatFailsIsLeftForTheCpuAndTheReasonIsSaid) {
  const QuickestDevice full = choose(fails, takes(0.5));
  EXPECT_EQ(full.devices(), std::vector{kCpu});
  EXPECT_EQ(full.text(),
            "device auto: cuda:0 (made up) does not do a step (CUDA out of memory), cpu (here) "
            "500.00 ms a step: cpu");
  EXPECT_EQ(to_json(full), Json({{"cuda:0 (made up)", "CUDA out of memory"}, {"cpu (here)", 0.5}}));
  EXPECT_EQ(choose(fails, fails).devices(), std::vector{kCpu});
  EXPECT_EQ(choose(takes(0.5), fails).devices(), std::vector{kGpu});
}

TEST(AutoDevice, AStopIsNoFailure) {
  const auto stops = []() -> double { throw Interrupted("stopped"); };
  EXPECT_THROW(choose(stops, takes(0.5)), Interrupted);
}

class TriedFits : public ::testing::Test {
 protected:
  TriedFits() {
    std::iota(split_.train.begin(), split_.train.end(), 0);
    std::iota(split_.validation.begin(), split_.validation.end(), 300);
    splits_ = {split_, split_, split_};
    for (std::size_t fold = 0; fold < splits_.size(); ++fold) splits_[fold].fold = fold;
    options_.fit.batch = 8;
  }
  Experiment experiment() const {
    return {datasets_, targets_, covariates_,
            splits_,   options_, testing::small_config(datasets_.front())};
  }

  Targets targets_;
  std::vector<Dataset> datasets_{testing::ramp_dataset(targets_, 360, 5, 4)};
  Split split_{0, 0, std::vector<std::size_t>(300), std::vector<std::size_t>(60), {}};
  std::vector<Split> splits_;
  std::vector<CovariateColumn> covariates_;  // none
  TrainOptions options_;
};

TEST_F(TriedFits, HaveFewExamsOfTheFirstSplit) {
  const auto fit = tried_fit(experiment());
  ASSERT_TRUE(fit.has_value());
  EXPECT_EQ(fit->name.model, options_.model);
  EXPECT_EQ(fit->split.train.size(), 80u);  // ten steps
  EXPECT_THAT(fit->split.train, IsSubsetOf(split_.train));
  EXPECT_GT(fit->split.train.back(), 290u);
  EXPECT_TRUE(std::ranges::is_sorted(fit->split.train));
  EXPECT_EQ(fit->split.validation.size(), 16u);
  EXPECT_THAT(fit->split.validation, IsSubsetOf(split_.validation));
}

TEST_F(TriedFits, AreTimedSideBySide) {
  for (const std::size_t jobs : {1, 3}) {
    options_.jobs = jobs;
    EXPECT_GT(seconds_per_step(experiment(), *tried_fit(experiment())), 0) << jobs;
  }
}

TEST_F(TriedFits, WithFewerExamsThanTenStepsGoOverThemAgain) {
  for (Split& split : splits_) split.train.resize(11);
  const auto fit = tried_fit(experiment());
  EXPECT_EQ(fit->split.train, splits_.front().train);
  EXPECT_GT(seconds_per_step(experiment(), *fit), 0);
}

TEST_F(TriedFits, AreOfTheFirstModelThatIsFittedBySteps) {
  options_.model = "summary";
  EXPECT_FALSE(tried_fit(experiment()).has_value());
  options_.compare = {"mean"};
  EXPECT_EQ(tried_fit(experiment())->name.model, "mean");
}

}  // namespace
}  // namespace coldframe::temporal

#include "train_temporal/training/objective/mixup.h"

#include "tests/train_temporal/made_data.h"

namespace coldframe::temporal {
namespace {

TEST(Mixup, DrawsSharesOfTheBetaDistribution) {
  CounterRandom random({3});
  for (const double alpha : {0.2, 1.0, 2.0}) {
    double sum = 0, squares = 0;
    constexpr int kDraws = 20000;
    for (int i = 0; i < kDraws; ++i) {
      const double x = draw_beta(alpha, random);
      sum += x;
      squares += (x - 0.5) * (x - 0.5);
    }
    EXPECT_NEAR(sum / kDraws, 0.5, 0.01) << alpha;
    EXPECT_NEAR(squares / kDraws, 1 / (4 * (2 * alpha + 1)), 0.005) << alpha;
  }
}

class MixedBatch : public ::testing::Test {
 protected:
  // Exam 0 has 5 frames and takes a quarter of exam 1, which has 3.
  void SetUp() override {
    items_[0].partner = Partner{1, items_[1].frames.features, 0, 0.75};
    items_[1].partner = Partner{1, items_[1].frames.features, 0, 1};
  }

  Dataset dataset_ = testing::noise_dataset({5, 3}, 4);
  std::vector<BatchItem> items_ = testing::all_frames(dataset_, {0, 1});
};

TEST_F(MixedBatch, StretchesThePartnerOverTheFramesOfTheExam) {
  const SequenceBatch mixed = make_batch(dataset_, items_);
  const torch::Tensor features = gather_features(dataset_, mixed);
  const std::int64_t partner_of[] = {0, 1, 1, 2, 2};  // round(t / 4 · 2), half away from 0
  std::int64_t row = 0;
  for (std::int64_t t = 0; t < 5; ++t) {
    const torch::Tensor expected =
        0.75 * dataset_.features[t] + 0.25 * dataset_.features[5 + partner_of[t]];
    EXPECT_TRUE(torch::allclose(features[row], expected, 1e-5, 1e-6)) << t;
    row += mixed.sequences[static_cast<std::size_t>(t)];
  }
}

TEST_F(MixedBatch, KeepsTimesAndLengthsOfTheExam) {
  const SequenceBatch mixed = make_batch(dataset_, items_);
  for (BatchItem& item : items_) item.partner.reset();
  const SequenceBatch plain = make_batch(dataset_, items_);
  EXPECT_EQ(mixed.frames, plain.frames);
  EXPECT_EQ(mixed.times, plain.times);
  EXPECT_EQ(mixed.frame_rows, plain.frame_rows);
}

TEST_F(MixedBatch, HasTheLossesOfBothLabelsWithTheirShares) {
  const Targets targets = testing::classes_of({0, 1});
  const Objective objective(targets, {0, 1}, {});
  const SequenceBatch mixed = make_batch(dataset_, items_);
  const std::vector<float> outputs = {0.3f, -0.4f, 0.1f, 0.9f};
  const LossSum total = objective.weights_of(items_);
  LossSum sum = total;
  std::vector<float> gradient(4);
  objective.add(mixed, outputs.data(), total, sum, gradient.data());
  const auto loss = [](double own, double other) { return std::log1p(std::exp(other - own)); };
  const double first = 0.75 * loss(0.3, -0.4) + 0.25 * loss(-0.4, 0.3), second = loss(0.9, 0.1);
  EXPECT_NEAR(sum.mean(), (first + second) / 2, 1e-6);
  const double p = 1 / (1 + std::exp(-0.7));
  EXPECT_NEAR(static_cast<double>(gradient[0]), (p - 0.75) / 2, 1e-6);
}

}  // namespace
}  // namespace coldframe::temporal

#include "train_temporal/fit/objective.h"

#include <cmath>

#include "tests/train_temporal/made_data.h"
#include "train_temporal/models/fused_gru.h"

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
  const PackedBatch mixed = make_batch(dataset_, items_);
  const torch::Tensor features = gather_features(dataset_, mixed);
  const std::int64_t partner_of[] = {0, 1, 1, 2, 2};  // round(t / 4 · 2), half away from 0
  std::int64_t row = 0;
  for (std::int64_t t = 0; t < 5; ++t) {
    const torch::Tensor expected =
        0.75 * dataset_.features[t] + 0.25 * dataset_.features[5 + partner_of[t]];
    EXPECT_TRUE(torch::allclose(features[row], expected, 1e-5, 1e-6)) << t;
    row += mixed.batch_sizes[static_cast<std::size_t>(t)];
  }
}

TEST_F(MixedBatch, KeepsTimesAndLengthsOfTheExam) {
  const PackedBatch mixed = make_batch(dataset_, items_);
  for (BatchItem& item : items_) item.partner.reset();
  const PackedBatch plain = make_batch(dataset_, items_);
  EXPECT_EQ(mixed.lengths, plain.lengths);
  EXPECT_EQ(mixed.times, plain.times);
  EXPECT_EQ(mixed.frame_rows, plain.frame_rows);
}

TEST_F(MixedBatch, HasTheLossesOfBothLabelsWithTheirShares) {
  const Targets targets = testing::classes_of({0, 1});
  const Objective objective(targets, {0, 1}, {});
  const PackedBatch mixed = make_batch(dataset_, items_);
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

// Exam 0 has frames of both streams, 1 and 3 of the first alone, 2 of the second.
class MixedStreams : public ::testing::Test {
 protected:
  void SetUp() override {
    dataset_.streams = 2;
    const bool has[4][2] = {{true, true}, {true, false}, {false, true}, {true, false}};
    for (std::int64_t exam = 0; exam < 4; ++exam)
      for (std::int64_t s = 0; s < 2; ++s) {
        const bool there = has[exam][s];
        torch::Tensor rows = dataset_.features.narrow(0, 3 * exam, 3);
        if (!there) rows.narrow(1, 2 * s, 2).fill_(NAN);
        rows.narrow(1, 4 + s, 1).fill_(there ? 1 : 0);
      }
  }

  // The rows that a mixture of each exam with its partner stands for, with `mean` for what one of
  // both lacks.
  Dataset by_hand(const std::vector<std::size_t>& partners, double share,
                  const torch::Tensor& mean) const {
    Dataset mixed = dataset_;
    mixed.features = dataset_.features.clone();
    for (std::int64_t exam = 0; exam < 4; ++exam) {
      const auto partner = static_cast<std::int64_t>(partners[static_cast<std::size_t>(exam)]);
      for (std::int64_t row = 3 * exam; row < 3 * exam + 3; ++row)
        for (std::int64_t i = 0; i < 6; ++i) {
          double own = dataset_.features[row][i].item<double>();
          double other = dataset_.features[row + 3 * (partner - exam)][i].item<double>();
          if (std::isnan(own) != std::isnan(other))
            (std::isnan(own) ? own : other) = mean[i].item<double>();
          mixed.features[row][i] = share * own + (1 - share) * other;
        }
    }
    return mixed;
  }

  Dataset dataset_ = testing::noise_dataset({3, 3, 3, 3}, 6);
};

TEST_F(MixedStreams, KeepWhatOneOfBothExamsHas) {
  constexpr double kShare = 0.7;
  const std::vector<std::size_t> partners = {1, 2, 3, 1};
  auto items = testing::all_frames(dataset_, {0, 1, 2, 3});
  const auto plain = items;
  for (std::size_t i = 0; i < items.size(); ++i)
    items[i].partner = Partner{partners[i], {0, 1, 2}, 0, kShare};
  for (const char* name : {"gru", "mean", "gated"}) {
    ModelConfig config =
        testing::small_config(dataset_, name == std::string("mean") ? "mean" : "gru");
    config.streams = {"FA", "ICGA"};
    config.gated = name == std::string("gated");
    const auto model = make_model(config, 1);
    const InputStatistics statistics = input_statistics(dataset_, {0, 1, 2, 3});
    torch::NoGradGuard no_grad;
    model->set_statistics(statistics);
    const Dataset hand = by_hand(partners, kShare, statistics.feature_mean);
    const PackedBatch mixed = make_batch(dataset_, items), same = make_batch(hand, plain);
    const torch::Tensor expected = compute_logits(*model, hand, same);
    EXPECT_TRUE(torch::allclose(compute_logits(*model, dataset_, mixed), expected, 0, 1e-5))
        << name;
    if (!config.has_kernels()) continue;
    FusedGru fused(*model, config);
    ThreadTeam team;
    fused.prepare(team);
    FusedPass pass(fused);
    const float* logits = pass.forward(dataset_, mixed, Dropout());
    EXPECT_TRUE(
        torch::allclose(torch::from_blob(const_cast<float*>(logits), {4, 2}), expected, 0, 1e-5));
  }
}

// Nothing was learnt of it: its features, and that it is there, change nothing.
TEST_F(MixedStreams, OneThatTheTrainingDoesNotHaveIsHidden) {
  const InputStatistics statistics = input_statistics(dataset_, {1, 3});
  const torch::Tensor known = statistics.feature_std < 1e30;
  EXPECT_TRUE(known.equal(torch::tensor({true, true, false, false, true, false})));
  for (const bool gated : {false, true}) {
    ModelConfig config = testing::small_config(dataset_, "mean");
    config.streams = {"FA", "ICGA"};
    config.gated = gated;
    const auto model = make_model(config, 1);
    torch::NoGradGuard no_grad;
    model->set_statistics(statistics);
    Dataset without = dataset_;
    without.features = dataset_.features.clone();
    without.features.narrow(1, 2, 2).fill_(NAN);
    without.features.narrow(1, 5, 1).zero_();
    const PackedBatch batch = make_batch(dataset_, testing::all_frames(dataset_, {0, 1, 2, 3}));
    EXPECT_TRUE(compute_logits(*model, dataset_, batch)
                    .allclose(compute_logits(*model, without, batch), 0, 1e-6));
  }
}

}  // namespace
}  // namespace coldframe::temporal

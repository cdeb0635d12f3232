// The fused model against the one that LibTorch differentiates.
#include "train_temporal/fit/step.h"

#include <atomic>
#include <numeric>
#include <stdexcept>

#include "common/system/resources.h"
#include "tests/train_temporal/made_data.h"
#include "train_temporal/fit/objective.h"
#include "train_temporal/models/sequence_model.h"

namespace coldframe::temporal {
namespace {

struct Variant {
  const char* name;
  std::int64_t layers;
  bool bidirectional;
  TemporalPool pool;
  bool time;
  enum Covariates { kNone, kAtHead, kAtFrames } covariates = kNone;
  bool elapsed = false;
};

class EveryFusedGru : public ::testing::TestWithParam<Variant> {
 protected:
  void SetUp() override {
    at::set_num_threads(1);
    config_ = testing::small_config(dataset_);
    config_.layers = GetParam().layers;
    config_.bidirectional = GetParam().bidirectional;
    config_.pool = GetParam().pool;
    config_.time = GetParam().time;
    config_.elapsed = GetParam().elapsed;
    for (Sequence& sequence : dataset_.sequences)
      sequence.elapsed_start = double(sequence.key % 600);
    config_.outputs = 3;
    if (GetParam().covariates != Variant::kNone) {
      config_.covariates = 3;
      config_.frame_covariates = GetParam().covariates == Variant::kAtFrames;
      if (config_.frame_covariates) config_.dimension += config_.covariates;
    }
    model_ = make_model(config_, 3);
    std::vector<std::size_t> all;
    std::vector<int> classes;
    for (std::size_t exam = 0; exam < dataset_.sequences.size(); ++exam) {
      classes.push_back(static_cast<int>(exam * exam % 7 % 3));
      all.push_back(exam);
    }
    targets_ = testing::classes_of(classes);
    torch::NoGradGuard no_grad;
    model_->set_statistics(input_statistics(dataset_, all));
    if (config_.covariates > 0) {
      torch::manual_seed(1);
      covariates_ = torch::randn({static_cast<std::int64_t>(all.size()), config_.covariates});
      model_->covariates = covariates_;
      if (!config_.frame_covariates) model_->covariate_head->weight.normal_();
    }
    items_ = testing::all_frames(dataset_, all);
  }

  Dataset dataset_ =
      testing::noise_dataset({5, 12, 1, 7, 12, 3, 9, 2, 2, 6, 4, 8, 11, 1, 5, 7, 3}, 21);
  ModelConfig config_;
  std::shared_ptr<SequenceModel> model_;
  Targets targets_;
  std::vector<BatchItem> items_;
  torch::Tensor covariates_;
};

INSTANTIATE_TEST_SUITE_P(
    Model, EveryFusedGru,
    ::testing::Values(
        Variant{"last", 1, false, TemporalPool::kLast, false},
        Variant{"mean_time", 1, false, TemporalPool::kMean, true},
        Variant{"attention_deep", 3, false, TemporalPool::kAttention, true},
        Variant{"both_ways_last", 2, true, TemporalPool::kLast, true},
        Variant{"both_ways_mean", 2, true, TemporalPool::kMean, false},
        Variant{"both_ways_attention", 1, true, TemporalPool::kAttention, false},
        Variant{"elapsed", 2, true, TemporalPool::kAttention, true, Variant::kNone, true},
        Variant{"covariates", 1, false, TemporalPool::kAttention, true, Variant::kAtHead},
        Variant{"covariates_at_frames", 2, false, TemporalPool::kAttention, false,
                Variant::kAtFrames}),
    [](const auto& variant) { return variant.param.name; });

TEST_P(EveryFusedGru, EqualsAutogradInLossAndAllGradients) {
  AdamW optimizer({{*model_}}, 0);
  const Dropout dropout(0.4, 7, 2, 0.5, config_.frame_covariates ? config_.covariates : 0);
  const Objective objective(targets_, {0, 1, 2, 3, 4, 5, 6, 7}, {{}, 0.1, true});
  draw_partners(items_, dataset_, 0.4, 7, 2);
  const LossSum expected =
      testing::batch_gradients(*model_, dataset_, items_, objective, dropout, 0);
  const torch::Tensor gradients = optimizer.gradients().clone();
  optimizer.gradients().fill_(NAN);  // all are written
  ThreadTeam team(2);
  FusedStep fused(*model_, config_, dataset_, optimizer.gradients(), team);
  for (const std::size_t micro_batch : {0, 5, 0}) {
    const LossSum loss = fused.compute(items_, objective, dropout, micro_batch);
    EXPECT_NEAR(loss.mean(), expected.mean(), 1e-6);
    optimizer.clip_gradients(0, team, fused.gradient_parts());
    const double norm = optimizer.gradient_norm();
    EXPECT_NEAR(norm, gradients.norm().item<double>(), 1e-5 * norm);
    for (const auto& item : model_->named_parameters()) {
      const std::int64_t offset = item.value().storage_offset();
      const auto theirs = gradients.narrow(0, offset, item.value().numel());
      EXPECT_TRUE(torch::allclose(item.value().grad().flatten(), theirs, 1e-5, 1e-6))
          << item.key() << ": differs by up to "
          << (item.value().grad().flatten() - theirs).abs().max().item<double>();
    }
  }
}

TEST_P(EveryFusedGru, EqualsAutogradInLogits) {
  const PackedBatch batch = make_batch(dataset_, items_);
  ThreadTeam team(2);
  std::vector<std::size_t> exams = batch.exams;
  const auto ours = predict_logits(*model_, {dataset_, config_, 0, 5}, exams, team);
  torch::NoGradGuard no_grad;
  const torch::Tensor theirs = compute_logits(*model_, dataset_, batch).to(torch::kFloat64);
  EXPECT_TRUE(torch::allclose(torch::tensor(ours, torch::kFloat64).view({-1, 3}), theirs, 0, 1e-5));
}

TEST_P(EveryFusedGru, GivesTheSameBitsWithAnyNumberOfThreads) {
  dataset_.features = dataset_.features.to(torch::kFloat16);
  Split split = testing::thirds(dataset_.sequences.size());
  split.train = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  FitOptions options;
  options.epochs = 3;
  options.batch = 17;
  options.train_frames = 6;
  const auto fit = [&](std::size_t threads) {
    FitTask task{dataset_, targets_, split, config_, options, 5, threads};
    task.covariates = covariates_;
    return testing::run_to_end(task);
  };
  const FitRecord one = fit(1);
  for (const std::size_t threads : {2, 3}) {
    const FitRecord several = fit(threads);
    EXPECT_EQ(several.test_logits, one.test_logits);
    for (std::size_t epoch = 0; epoch < one.history.size(); ++epoch) {
      EXPECT_EQ(several.history[epoch].train, one.history[epoch].train);
    }
  }
}

TEST_P(EveryFusedGru, PredictsTheSameBitsWithAnyNumberOfThreads) {
  std::vector<std::size_t> exams(dataset_.sequences.size());
  std::iota(exams.begin(), exams.end(), 0);
  const auto predict = [&](std::size_t threads) {
    ThreadTeam team(threads);
    return predict_logits(*model_, {dataset_, config_, 0, 64}, exams, team);
  };
  const std::vector<double> one = predict(1);
  for (const std::size_t threads : {2, 3, 8}) EXPECT_EQ(predict(threads), one);
}

TEST(FusedGru, ThreadsShareThePredictionOfFewExams) {
  const Dataset dataset = testing::noise_dataset(std::vector<std::int64_t>(48, 400), 128);
  ModelConfig config = testing::small_config(dataset);
  config.hidden = 128;
  const auto model = make_model(config, 3);
  std::vector<std::size_t> exams(dataset.sequences.size());
  std::iota(exams.begin(), exams.end(), 0);
  ThreadTeam team(3);
  // On a busy processor this thread may have done all before the others woke: until they get their
  // turn, which they never do where the exams are one part.
  double own = 0, all = 0;
  for (int attempt = 0; attempt < 200 && own >= 0.8 * all; ++attempt) {
    const double own_before = thread_cpu_seconds(), all_before = process_cpu_seconds();
    predict_logits(*model, {dataset, config, 0, 64}, exams, team);
    own = thread_cpu_seconds() - own_before;
    all = process_cpu_seconds() - all_before;
  }
  EXPECT_LT(own, 0.8 * all);
}

TEST(ThreadTeam, TakesEveryTurnOnceAndPassesTheErrorOn) {
  ThreadTeam team(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::atomic<int>> turns(7);
    team.run(turns.size(), [&](std::size_t i) { ++turns[i]; });
    for (const auto& count : turns) ASSERT_EQ(count, 1);
  }
  EXPECT_THROW(team.run(5,
                        [](std::size_t i) {
                          if (i == 3) throw std::runtime_error("third");
                        }),
               std::runtime_error);
  std::atomic<int> after{0};
  team.run(4, [&](std::size_t) { ++after; });
  EXPECT_EQ(after, 4);
}

}  // namespace
}  // namespace coldframe::temporal

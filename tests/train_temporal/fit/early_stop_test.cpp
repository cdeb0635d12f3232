#include "train_temporal/fit/objective.h"

#include "tests/train_temporal/made_data.h"

namespace coldframe::temporal {
namespace {

TEST(EarlyStop, StopsAfterItsPatienceWithoutImprovement) {
  EarlyStop stop{.patience = 3};
  const std::vector<double> losses = {1.0, 0.8, 0.8, 0.9, 1.5};
  const std::vector<bool> improved = {true, true, false, false, false};
  for (std::size_t i = 0; i < losses.size(); ++i) {
    EXPECT_FALSE(stop.should_stop()) << i;
    EXPECT_EQ(stop.update(losses[i]), improved[i]) << i;
  }
  EXPECT_TRUE(stop.should_stop());
  EXPECT_EQ(stop.best_epoch, 1u);
  EXPECT_EQ(stop.best_loss, 0.8);
}

TEST(EarlyStop, ComparesFiguresBeforeLosses) {
  EarlyStop stop{.patience = 2};
  EXPECT_TRUE(stop.update(0.5, 0.8));
  EXPECT_FALSE(stop.update(0.3, 0.7));
  EXPECT_TRUE(stop.update(0.4, 0.8));
  EXPECT_TRUE(stop.update(0.9, 0.9));
  EXPECT_EQ(stop.best_epoch, 3u);
}

TEST(EarlyStop, KeepsTheLastEpochWhereNothingTellsThemApart) {
  EarlyStop stop{.patience = 2, .blind = true};
  for (const double loss : {0.0, -5e-17, 5e-17, 0.0, 0.0}) EXPECT_TRUE(stop.update(loss));
  EXPECT_EQ(stop.best_epoch, 4u);
  EXPECT_FALSE(stop.should_stop());
}

TEST(EarlyStop, NeverStopsWithoutPatience) {
  EarlyStop stop{.patience = 0};
  for (int i = 0; i < 100; ++i) stop.update(1.0);
  EXPECT_FALSE(stop.should_stop());
}

FitOptions watching_the_metric(std::size_t epochs) {
  FitOptions options;
  options.epochs = epochs;
  options.learning_rate = 5e-3;
  options.stopping_metric = StoppingMetric::kMetric;
  return options;
}

TEST(StoppingMetric, KeepsTheEpochOfTheHighestMetricWhereThatIsWatched) {
  Targets labels;
  const Dataset dataset = testing::ramp_dataset(labels, 60, 6, 6);
  const Split split = testing::thirds(60);
  const FitOptions options = watching_the_metric(12);
  const FitTask task{dataset, labels, split, testing::small_config(dataset), options, 4};
  const FitRecord result = testing::run_to_end(task);
  const EpochLosses& kept = result.history[result.best_epoch];
  EXPECT_EQ(kept.figure, validation_figure(labels, split, result.validation_logits));
  EXPECT_EQ(kept.measured, kept.figure);
  for (const EpochLosses& epoch : result.history) {
    EXPECT_TRUE(epoch.figure < kept.figure ||
                (epoch.figure == kept.figure && epoch.validation >= kept.validation));
  }
}

TEST(StoppingMetric, IsMeasuredWhereTheLossIsWatched) {
  Targets labels;
  const Dataset dataset = testing::ramp_dataset(labels, 60, 6, 6);
  const Split split = testing::thirds(60);
  FitOptions options = watching_the_metric(6);
  options.stopping_metric = StoppingMetric::kLoss;
  const FitTask task{dataset, labels, split, testing::small_config(dataset), options, 4};
  const FitRecord result = testing::run_to_end(task);
  const EpochLosses& kept = result.history[result.best_epoch];
  EXPECT_EQ(kept.measured, validation_figure(labels, split, result.validation_logits));
  EXPECT_EQ(kept.figure, 0);
}

// AUROC is undefined there; the loss decides.
TEST(StoppingMetric, WatchesTheLossWhereTheValidationPartHasOneClass) {
  const Dataset dataset = testing::noise_dataset(std::vector<std::int64_t>(12, 4), 5);
  const Targets labels = testing::classes_of({0, 1, 1, 1, 0, 1, 0, 1, 1, 1, 0, 1});
  const FitOptions options = watching_the_metric(6);
  const FitTask task{dataset, labels, testing::thirds(12), testing::small_config(dataset),
                     options, 4};
  const FitRecord result = testing::run_to_end(task);
  for (const EpochLosses& epoch : result.history) {
    EXPECT_EQ(epoch.figure, 0);
    EXPECT_FALSE(epoch.measured.has_value());
    EXPECT_GE(epoch.validation, result.history[result.best_epoch].validation);
  }
}

}  // namespace
}  // namespace coldframe::temporal

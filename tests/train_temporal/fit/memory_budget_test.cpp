// A cap on what tensors take: batches are cut until they fit, and the fit stays the same.
#include "common/cli/error.h"
#include "common/torch/memory.h"
#include "tests/train_temporal/made_data.h"
#include "train_temporal/fit/memory_plan.h"

namespace coldframe::temporal {
namespace {

class MemoryBudget : public ::testing::Test {
 protected:
  void SetUp() override {
    at::set_num_threads(1);
    count_cpu_memory();
  }
  void TearDown() override { count_cpu_memory(0); }
};

// Features, parameters and their moments must fit; batches are cut until they do.
TEST_F(MemoryBudget, CutsBatchesToTheMemoryThatThereIs) {
  const Dataset dataset = testing::noise_dataset(std::vector<std::int64_t>(48, 60), 32);
  std::vector<int> classes;
  for (int i = 0; i < 48; ++i) classes.push_back(i % 3 == 0);
  const Targets labels = testing::classes_of(classes);
  Split split = testing::thirds(48);
  split.train.insert(split.train.end(), split.test.begin(), split.test.end());
  FitOptions options;
  options.epochs = 3;
  options.batch = 32;
  for (const char* model : {"gru", "lstm", "transformer", "tcn"}) {
    ModelConfig config = testing::small_config(dataset, model);
    config.hidden = 32;
    const FitTask task{dataset, labels, split, config, options, 9, 2};
    const std::uint64_t before = cpu_memory().live;
    reset_cpu_memory_peak();
    const FitRecord whole = testing::run_to_end(task);
    const std::uint64_t needed = cpu_memory().peak - before;
    EXPECT_EQ(whole.micro_batches.training, 32u);
    // Threads that compute at the same time take more than those that happened not to.
    for (const double share : {1.25, 0.5, 0.25}) {
      const std::uint64_t live = cpu_memory().live;
      const auto limit = live + static_cast<std::uint64_t>(share * double(needed));
      count_cpu_memory(limit);
      reset_cpu_memory_peak();
      const FitRecord cut = testing::run_to_end(task);
      count_cpu_memory(0);
      EXPECT_LE(cpu_memory().peak, limit);
      EXPECT_EQ(cut.micro_batches.training < 32, share < 1) << model << " " << share;
      for (std::size_t epoch = 0; epoch < whole.history.size(); ++epoch) {
        EXPECT_NEAR(cut.history[epoch].train, whole.history[epoch].train, 1e-5);
        EXPECT_NEAR(cut.history[epoch].validation, whole.history[epoch].validation, 1e-5);
      }
    }
    // Memory that is gone when the first step runs: it goes on with less.
    Trainer trainer(task);
    EXPECT_EQ(trainer.micro_batches().training, 32u);
    count_cpu_memory(cpu_memory().live + static_cast<std::uint64_t>(0.4 * double(needed)));
    trainer.run_epoch();
    count_cpu_memory(0);
    EXPECT_LT(trainer.micro_batches().training, 32u) << model;
    EXPECT_GE(trainer.micro_batches().training, 1u) << model;
    EXPECT_NEAR(trainer.history()[0].train, whole.history[0].train, 1e-5) << model;
    count_cpu_memory(cpu_memory().live + 4096);
    EXPECT_THROW(testing::run_to_end(task), std::exception);
    count_cpu_memory(0);
  }
}

// A large ViT's moments alone are more than a step needs: they are refused where the user bounds
// the whole fit, not where the step has its usual share.
TEST(TunedBudget, BoundsTheStepAloneUnlessTheWholeFitIsBounded) {
  const Dataset dataset = testing::noise_dataset({3}, 4);
  const Targets labels = testing::classes_of({1});
  const Split split;
  FitTask task{dataset, labels, split, testing::small_config(dataset), FitOptions(), 1};
  task.options.tune.vit.budget = 2000;
  EXPECT_EQ(step_budget(task, 7000), 2000u);
  task.options.tune.budget = 10000;
  EXPECT_EQ(step_budget(task, 7000), 3000u);
  EXPECT_EQ(step_budget(task, 9999), 1u);
  for (const std::uint64_t taken : {10000u, 12000u})
    EXPECT_THROW(step_budget(task, taken), SystemError);
}

struct Plan {
  const char* what;
  const char* model;
  std::size_t batch;
  std::int64_t hidden, layers, train_frames;
  bool time;
  TemporalPool pool;
  enum Inputs { kPlain, kCovariates, kStreams, kGated, kOneStream } inputs = kPlain;
  TimeEncoding encoding = TimeEncoding::kLog;
};

// Frames of two streams, or ones that end in covariates.
void set_inputs(Plan::Inputs inputs, ModelConfig& config) {
  if (inputs == Plan::kPlain) return;
  if (inputs == Plan::kCovariates) {
    config.covariates = 3;
    config.frame_covariates = true;
    config.dimension += config.covariates;
    return;
  }
  config.streams = {"FA", "ICGA"};
  config.gated = inputs == Plan::kGated;
  config.only_stream = inputs == Plan::kOneStream ? 1 : -1;
}

// Peak of a fit on one thread, features not counted, against what the shapes say. (Of several
// threads each brings its own pass when all are there at once.)
TEST_F(MemoryBudget, IsPredictedFromShapes) {
  const Plan plans[] = {
      {"small batch", "gru", 8, 64, 1, 0, false, TemporalPool::kMean},
      {"large batch", "gru", 96, 64, 1, 0, false, TemporalPool::kMean},
      {"attention, times", "gru", 32, 64, 1, 0, true, TemporalPool::kAttention},
      {"some frames", "gru", 32, 64, 1, 8, true, TemporalPool::kLast},
      {"both ways, layers", "bigru", 32, 48, 3, 0, false, TemporalPool::kMean},
      {"many weights", "gru", 8, 256, 1, 8, false, TemporalPool::kMean},
      {"lstm", "lstm", 32, 64, 1, 0, false, TemporalPool::kMean},
      {"lstm, many weights and few frames", "lstm", 8, 256, 1, 5, false, TemporalPool::kMean},
      {"lstm, layers", "lstm", 32, 32, 2, 0, false, TemporalPool::kMean},
      {"transformer", "transformer", 32, 64, 1, 0, true, TemporalPool::kMean},
      {"transformer, layers", "transformer", 32, 64, 3, 0, false, TemporalPool::kAttention},
      {"transformer, many weights", "transformer", 8, 256, 2, 8, true, TemporalPool::kLast},
      {"tcn", "tcn", 32, 64, 1, 0, true, TemporalPool::kMean},
      {"tcn, layers", "tcn", 32, 64, 4, 0, false, TemporalPool::kAttention},
      {"tcn, many weights", "tcn", 8, 256, 2, 8, true, TemporalPool::kLast},
      {"attention", "attention", 64, 64, 1, 0, false, TemporalPool::kMean},
      {"mean", "mean", 64, 64, 1, 0, false, TemporalPool::kMean},
      {"gru, covariates", "gru", 32, 48, 1, 0, false, TemporalPool::kMean, Plan::kCovariates},
      {"lstm, covariates", "lstm", 32, 8, 1, 0, false, TemporalPool::kMean, Plan::kCovariates},
      {"mean, covariates", "mean", 32, 8, 1, 0, false, TemporalPool::kMean, Plan::kCovariates},
      {"tcn, covariates", "tcn", 32, 8, 1, 0, false, TemporalPool::kMean, Plan::kCovariates},
      {"gru, streams", "gru", 32, 48, 1, 0, false, TemporalPool::kMean, Plan::kStreams},
      {"mean, streams", "mean", 32, 48, 1, 0, false, TemporalPool::kMean, Plan::kStreams},
      {"gru, gated", "gru", 32, 48, 1, 0, false, TemporalPool::kMean, Plan::kGated},
      {"lstm, gated", "lstm", 32, 16, 1, 0, false, TemporalPool::kMean, Plan::kGated},
      {"transformer, gated", "transformer", 32, 16, 1, 0, false, TemporalPool::kMean, Plan::kGated},
      {"tcn, gated", "tcn", 32, 48, 3, 0, false, TemporalPool::kMean, Plan::kGated},
      {"mean, gated", "mean", 32, 48, 1, 0, false, TemporalPool::kMean, Plan::kGated},
      {"mean, gated, narrow", "mean", 32, 8, 1, 0, false, TemporalPool::kMean, Plan::kGated},
      {"attention, gated", "attention", 32, 48, 1, 0, false, TemporalPool::kMean, Plan::kGated},
      {"gru, one stream", "gru", 32, 48, 1, 0, false, TemporalPool::kMean, Plan::kOneStream},
      {"mean, gated, large batch", "mean", 96, 48, 1, 0, false, TemporalPool::kMean, Plan::kGated},
      {"gru, gated, large batch", "gru", 96, 48, 2, 0, false, TemporalPool::kMean, Plan::kGated},
      {"bigru, one stream", "bigru", 96, 48, 2, 0, false, TemporalPool::kMean, Plan::kOneStream},
      {"gru, sinusoids", "gru", 96, 48, 1, 0, true, TemporalPool::kMean, Plan::kPlain,
       TimeEncoding::kTime2Vec},
      {"gru, decay, layers", "gru", 96, 48, 2, 0, true, TemporalPool::kMean, Plan::kPlain,
       TimeEncoding::kDecay},
      {"mean, one stream", "mean", 32, 8, 1, 0, false, TemporalPool::kMean, Plan::kOneStream},
  };
  Dataset dataset = testing::noise_dataset(std::vector<std::int64_t>(300, 24), 96);
  std::vector<int> classes;
  for (int i = 0; i < 300; ++i) classes.push_back(i % 2);
  const Targets labels = testing::classes_of(classes);
  const Split split = testing::thirds(300);
  for (const Plan& plan : plans) {
    SCOPED_TRACE(plan.what);
    FitOptions options;
    options.epochs = 2;
    options.batch = plan.batch;
    options.train_frames = plan.train_frames;
    ModelConfig config = testing::small_config(dataset, plan.model);
    config.hidden = plan.hidden;
    config.layers = plan.layers;
    config.time = plan.time;
    config.pool = plan.pool;
    config.time_encoding = plan.encoding;
    set_inputs(plan.inputs, config);
    dataset.streams = std::ssize(config.streams);
    FitTask task{dataset, labels, split, config, options, 9};
    if (config.covariates > 0) task.covariates = torch::zeros({300, config.covariates});
    const std::uint64_t before = cpu_memory().live;
    reset_cpu_memory_peak();
    testing::run_to_end(task);
    const auto measured = static_cast<double>(cpu_memory().peak - before);
    const auto predicted =
        static_cast<double>(predict_memory(task, first_micro_batches(task)).total());
    EXPECT_NEAR(predicted / measured, 1, 0.1) << predicted << " predicted, " << measured;
  }
}

// It has no features to project: these were predicted three times over.
TEST_F(MemoryBudget, OfTheClockIsPredictedSmall) {
  const Dataset dataset = testing::noise_dataset(std::vector<std::int64_t>(60, 24), 96);
  const Targets labels = testing::classes_of(std::vector<int>(60, 1));
  FitOptions options;
  ModelConfig config = testing::small_config(dataset, "clock");
  config.hidden = 256;
  const Split split = testing::thirds(60);
  const FitTask task{dataset, labels, split, config, options, 9};
  EXPECT_LT(predict_memory(task, first_micro_batches(task)).total(), 100'000u);
}

TEST_F(MemoryBudget, CountsWhatCublasTakesOnCuda) {
  Dataset dataset = testing::noise_dataset(std::vector<std::int64_t>(60, 24), 96);
  const Targets labels = testing::classes_of(std::vector<int>(60, 1));
  const Split split = testing::thirds(60);
  const FitTask task{dataset,      labels, split, testing::small_config(dataset, "attention"),
                     FitOptions(), 9};
  const std::uint64_t on_cpu = predict_memory(task, first_micro_batches(task)).fixed;
  dataset.device = torch::kCUDA;
  EXPECT_EQ(predict_memory(task, first_micro_batches(task)).fixed,
            on_cpu + cuda_training_workspaces());
}

}  // namespace
}  // namespace coldframe::temporal

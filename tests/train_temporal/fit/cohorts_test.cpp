// Made cohorts whose label lies in one thing alone: models that see it find it, others do not.
#include "tests/train_temporal/made_data.h"
#include "train_temporal/evaluate/metrics.h"
#include "train_temporal/models/model_config.h"

namespace coldframe::temporal {
namespace {

class Cohorts : public ::testing::Test {
 protected:
  void SetUp() override { at::set_num_threads(1); }
};

double auroc_on_test(const FitTask& task, const FitRecord& result) {
  std::vector<double> score;
  std::vector<int> positive;
  for (std::size_t i = 0; i < task.split.test.size(); ++i) {
    score.push_back(result.test_logits[2 * i + 1] - result.test_logits[2 * i]);
    positive.push_back(task.targets[0].value[task.split.test[i]]);
  }
  return auroc(score, positive).value;
}

FitOptions short_fit(std::size_t epochs) {
  FitOptions options;
  options.epochs = epochs;
  options.learning_rate = 5e-3;
  return options;
}

TEST_F(Cohorts, OnlyModelsThatReadInOrderLearnWhatOnlyTheOrderTells) {
  Targets labels;
  const Dataset dataset = testing::ramp_dataset(labels, 240, 8, 6);
  const Split split = testing::thirds(240);
  const auto score = [&](const char* model) {
    const FitTask task{dataset,       labels, split, testing::small_config(dataset, model),
                       short_fit(40), 1};
    return auroc_on_test(task, testing::run_to_end(task));
  };
  for (const char* model : {"gru", "transformer", "tcn"}) EXPECT_GE(score(model), 0.95) << model;
  EXPECT_LE(score("mean"), 0.65);
  EXPECT_LE(score("shuffled"), 0.65);
}

// Both classes have the same frames and the same intervals; in class 1 the long ones come first.
TEST_F(Cohorts, OnlyAModelThatSeesTimesLearnsWhatOnlyTheIntervalsTell) {
  Dataset dataset = testing::noise_dataset(std::vector<std::int64_t>(240, 8), 6);
  std::vector<int> classes;
  for (std::size_t exam = 0; exam < 240; ++exam) {
    classes.push_back(static_cast<int>(exam % 2));
    double time = 0;
    for (std::size_t t = 0; t < 8; ++t) {
      dataset.sequences[exam].time_s[t] = time;
      time += (t < 4) == (exam % 2 == 1) ? 2.0 + 0.1 * double(exam % 5) : 0.5;
    }
  }
  const Targets labels = testing::classes_of(classes);
  const Split split = testing::thirds(240);
  const auto score = [&](const char* model, bool time, TimeEncoding encoding) {
    ModelConfig config = testing::small_config(dataset, model);
    config.time = time;
    config.time_encoding = encoding;
    const FitTask task{dataset, labels, split, config, short_fit(40), 1};
    return auroc_on_test(task, testing::run_to_end(task));
  };
  EXPECT_GE(score("gru", true, TimeEncoding::kLog), 0.95);
  EXPECT_GE(score("gru", true, TimeEncoding::kDecay), 0.95);
  EXPECT_GE(score("gru", true, TimeEncoding::kTime2Vec), 0.95);
  for (const char* model : {"lstm", "transformer", "tcn"})
    EXPECT_GE(score(model, true, TimeEncoding::kLog), 0.95) << model;
  for (const char* model : {"gru", "transformer", "tcn"})
    EXPECT_LE(score(model, false, TimeEncoding::kLog), 0.65) << model;
  EXPECT_LE(score("mean", false, TimeEncoding::kLog), 0.65);
}

// So many test exams that chance alone is between 0.45 and 0.55 (four standard deviations).
TEST_F(Cohorts, NewModelsFindOrderAndRhythmWhereTheyAreAndNothingElsewhere) {
  constexpr std::size_t kLearnt = 240, kExams = kLearnt + 1600;
  Targets labels;
  Dataset ramps = testing::ramp_dataset(labels, kExams, 8, 6);
  Dataset rhythms = testing::noise_dataset(std::vector<std::int64_t>(kExams, 8), 6);
  for (std::size_t exam = 0; exam < kExams; ++exam) {
    CounterRandom random({exam, 77});
    std::vector<double>& times = rhythms.sequences[exam].time_s;
    for (std::size_t t = 1; t < times.size();
         ++t) {  // growing intervals, or the same back to front
      const std::size_t step = exam % 2 == 1 ? t : times.size() - t;
      times[t] = times[t - 1] + std::exp(0.4 * double(step) + 0.3 * testing::noise(random));
    }
  }
  Split split;
  for (std::size_t i = 0; i < kExams; ++i)
    (i >= kLearnt ? split.test : i % 3 == 0 ? split.validation : split.train).push_back(i);
  const auto score = [&](const Dataset& dataset, const char* model, bool shuffled, bool time) {
    ModelConfig config = testing::small_config(dataset, model);
    if (shuffled) set_model(config, "shuffled");
    config.time = time;
    const FitTask task{dataset, labels, split, config, short_fit(30), 1};
    return auroc_on_test(task, testing::run_to_end(task));
  };
  for (const char* model : {"transformer", "tcn"}) {
    SCOPED_TRACE(model);
    EXPECT_GE(score(ramps, model, false, false), 0.95);
    EXPECT_GE(score(rhythms, model, false, true), 0.95);
    EXPECT_NEAR(score(ramps, model, true, false), 0.5, 0.05);
    EXPECT_NEAR(score(rhythms, model, false, false), 0.5, 0.05);
  }
}

}  // namespace
}  // namespace coldframe::temporal

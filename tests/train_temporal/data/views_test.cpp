#include <gmock/gmock.h>

#include <map>

#include "common/text/text.h"
#include "tests/train_temporal/made_data.h"

namespace coldframe::temporal {
namespace {

// The dataset with another view behind it, whose features are `features`.
Dataset with_view(Dataset dataset, const torch::Tensor& features) {
  dataset.views.push_back(concat("view", dataset.views.size()));
  dataset.features = torch::cat({dataset.features, features});
  return dataset;
}

FitOptions few_epochs(std::size_t epochs) {
  FitOptions options;
  options.epochs = epochs;
  options.patience = 0;
  options.train_frames = 5;
  return options;
}

class Views : public ::testing::Test {
 protected:
  void SetUp() override { clean = testing::ramp_dataset(labels, 60, 6, 6); }

  FitRecord fit(const Dataset& dataset, FitOptions options = few_epochs(6)) const {
    return testing::run_to_end(
        {dataset, labels, split, testing::small_config(dataset), options, 4});
  }

  Targets labels;
  Dataset clean;
  Split split = testing::thirds(60);
};

TEST(DrawView, TakesEachEquallyOftenByExamAndEpoch) {
  std::map<std::size_t, int> drawn;
  std::size_t changed = 0;
  for (std::uint64_t epoch = 0; epoch < 30; ++epoch) {
    for (std::uint64_t exam = 0; exam < 100; ++exam) {
      const std::size_t view = draw_view(3, 7, mix_bits(exam), epoch);
      ++drawn[view];
      ASSERT_EQ(view, draw_view(3, 7, mix_bits(exam), epoch));
      changed += view != draw_view(3, 7, mix_bits(exam), epoch + 1);
    }
  }
  ASSERT_EQ(drawn.size(), 3u);
  for (const auto& [view, count] : drawn) EXPECT_NEAR(count, 1000, 105) << view;
  EXPECT_NEAR(static_cast<double>(changed), 2000, 105);
  EXPECT_EQ(draw_view(1, 7, 1, 1), 0u);
}

TEST_F(Views, LieOneAfterTheOtherInTheTable) {
  const Dataset small = testing::noise_dataset({2, 3, 1}, 4);
  const Dataset both = with_view(small, small.features + 1);
  auto items = testing::all_frames(both, {0, 1, 2});
  items[1].view = 1;
  const PackedBatch batch = make_batch(both, items);
  // Exam 0 has the rows 0 and 1, exam 1 the rows 2 to 4 and in the other view 8 to 10, exam 2
  // row 5.
  EXPECT_EQ(batch.frame_rows, (std::vector<std::int64_t>{8, 0, 5, 9, 1, 10}));
}

TEST_F(Views, OfTheSameFeaturesChangeNothing) {
  const FitRecord alone = fit(clean), twice = fit(with_view(clean, clean.features));
  EXPECT_EQ(twice.test_logits, alone.test_logits);
  EXPECT_EQ(twice.history.back().train, alone.history.back().train);
}

TEST_F(Views, AreDrawnForTrainingExamsAlone) {
  torch::Tensor other = clean.features.clone();
  for (const auto* part : {&split.validation, &split.test}) {
    for (const std::size_t exam : *part) {
      const Sequence& sequence = clean.sequences[exam];
      other.narrow(0, sequence.first_row, sequence.frames()).fill_(NAN);
    }
  }
  EXPECT_EQ(fit(with_view(clean, other)).test_logits, fit(clean).test_logits);
}

TEST_F(Views, ThatDifferChangeTheFitAndAreReproducible) {
  const Dataset both = with_view(clean, clean.features * 0.5 + 0.3);
  const FitRecord first = fit(both), again = fit(both), alone = fit(clean);
  EXPECT_EQ(first.test_logits, again.test_logits);
  EXPECT_NE(first.test_logits, alone.test_logits);
}

TEST_F(Views, DoNotDependOnMicroBatches) {
  const Dataset both = with_view(clean, clean.features * 0.5 + 0.3);
  FitOptions options = few_epochs(4);
  const auto whole = fit(both, options).history;
  options.micro_batch = 3;
  const auto pieces = fit(both, options).history;
  for (std::size_t epoch = 0; epoch < whole.size(); ++epoch)
    EXPECT_NEAR(pieces[epoch].train, whole[epoch].train, 1e-5);
}

}  // namespace
}  // namespace coldframe::temporal

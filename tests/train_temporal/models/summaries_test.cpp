#include "train_temporal/models/summary_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/train_temporal/made_data.h"

namespace coldframe::temporal {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// One feature of an exam: the values that are there, their numbers from 1 and their times.
struct Observed {
  std::vector<double> value, place, time;
};

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

double slope(const std::vector<double>& t, const std::vector<double>& y) {
  double above = 0, below = 0;
  for (std::size_t i = 0; i < t.size(); ++i) {
    above += (t[i] - mean(t)) * (y[i] - mean(y));
    below += (t[i] - mean(t)) * (t[i] - mean(t));
  }
  return below > 0 ? above / below : 0;
}

double expected(Family family, const Observed& seen, bool per_second, const VisitFrames& visits,
                double frames) {
  if (seen.value.empty()) return kNone;
  double squares = 0;
  std::vector<double> first, own;
  for (std::size_t i = 0; i < seen.value.size(); ++i) {
    squares += std::pow(seen.value[i] - mean(seen.value), 2);
    if (visits.own == 0 || seen.place[i] <= double(visits.first)) first.push_back(seen.value[i]);
    if (visits.own == 0 || seen.place[i] > frames - double(visits.own))
      own.push_back(seen.value[i]);
  }
  switch (family) {
    case Family::kAverage:
      return mean(seen.value);
    case Family::kMaximum:
      return *std::ranges::max_element(seen.value);
    case Family::kMinimum:
      return *std::ranges::min_element(seen.value);
    case Family::kDeviation:
      return std::sqrt(squares / static_cast<double>(seen.value.size()));
    case Family::kFirst:
      return seen.value.front();
    case Family::kLast:
      return seen.value.back();
    case Family::kChange:
      return seen.value.back() - seen.value.front();
    case Family::kSlope:
      return slope(per_second ? seen.time : seen.place, seen.value);
    case Family::kVisits:
      return first.empty() || own.empty() ? kNone : mean(own) - mean(first);
  }
  return kNone;
}

Observed seen_of(const Dataset& dataset, std::size_t exam, std::int64_t feature) {
  const Sequence& sequence = dataset.sequences[exam];
  Observed seen;
  for (std::int64_t t = 0; t < sequence.frames(); ++t) {
    const auto value = dataset.features[sequence.first_row + t][feature].item<double>();
    if (std::isnan(value)) continue;
    seen.value.push_back(value);
    seen.place.push_back(static_cast<double>(t + 1));
    seen.time.push_back(sequence.time_s[static_cast<std::size_t>(t)]);
  }
  return seen;
}

// Exams of 1 to 7 frames; with `gaps` a third of all values is missing, of one exam all of one
// feature.
Dataset made_dataset(bool gaps) {
  Dataset dataset = testing::noise_dataset({3, 7, 1, 5, 5}, 4);
  dataset.sequences[1].visits = {2, 3};
  dataset.sequences[3].visits = {1, 4};
  if (!gaps) return dataset;
  CounterRandom random({7});
  for (std::int64_t row = 0; row < dataset.features.size(0); ++row)
    for (std::int64_t d = 0; d < 4; ++d)
      if (random.next() % 3 == 0) dataset.features[row][d] = kNone;
  dataset.features.narrow(0, dataset.sequences[3].first_row, 5).select(1, 2).fill_(kNone);
  return dataset;
}

void expect_families(const Dataset& dataset, bool gaps) {
  const PackedBatch batch = make_batch(dataset, testing::all_frames(dataset, {0, 1, 2, 3, 4}));
  const torch::Tensor features = gather_features(dataset, batch);
  for (std::int64_t f = 0; f < kFamilies; ++f) {
    for (const bool per_second : {false, true}) {
      const auto family = static_cast<Family>(f);
      const torch::Tensor found = summarise(family, features, batch, {per_second, gaps});
      for (std::size_t b = 0; b < batch.exams.size(); ++b) {
        const std::size_t exam = batch.exams[b];
        for (std::int64_t d = 0; d < 4; ++d) {
          const Sequence& sequence = dataset.sequences[exam];
          const double wanted = expected(family, seen_of(dataset, exam, d), per_second,
                                         sequence.visits, double(sequence.frames()));
          const double is = found[static_cast<std::int64_t>(b)][d].item<double>();
          const std::string what =
              family_name(family) + " of exam " + std::to_string(exam) + ", " + std::to_string(d);
          EXPECT_EQ(std::isnan(is), std::isnan(wanted)) << what;
          if (!std::isnan(wanted)) {
            EXPECT_NEAR(is, wanted, 2e-6) << what;
          }
        }
      }
    }
  }
}

TEST(Summaries, AreThoseOfEveryFeatureOverItsFrames) {
  expect_families(made_dataset(false), false);
}

TEST(Summaries, LeaveOutFramesThatLackAFeature) {
  expect_families(made_dataset(true), true);
}

TEST(Summaries, SlopesPerSecondLeaveOutFramesAtUnknownTimes) {
  Dataset dataset = testing::noise_dataset({4, 3}, 2);
  dataset.sequences[0].time_s[2] = kNone;
  dataset.sequences[1].time_s = {kNone, kNone, kNone};
  const PackedBatch batch = make_batch(dataset, testing::all_frames(dataset, {0, 1}));
  const torch::Tensor found = summarise(Family::kSlope, gather_features(dataset, batch), batch,
                                        {.per_second = true, .may_lack = false});
  Observed seen = seen_of(dataset, 0, 1);
  seen.value.erase(seen.value.begin() + 2);
  seen.time.erase(seen.time.begin() + 2);
  EXPECT_NEAR(found[0][1].item<double>(), slope(seen.time, seen.value), 2e-6);
  EXPECT_TRUE(found[1].isnan().all().item<bool>());
}

// An unknown summary counts as the training part's mean: it changes no output.
TEST(SummaryModel, TakesTheMeanForWhatIsUnknown) {
  const Dataset dataset = made_dataset(true);
  ModelConfig config = testing::small_config(dataset, "summary");
  config.streams = {"a", "b"};  // frames may lack features
  SummaryModel model(config);
  torch::NoGradGuard no_grad;
  model.head->weight.fill_(1);
  model.head->bias.fill_(0.5);
  model.summary_mean.fill_(0.25);
  const PackedBatch batch = make_batch(dataset, testing::all_frames(dataset, {3}));
  const Observed seen = seen_of(dataset, 3, 0), other = seen_of(dataset, 3, 1),
                 last = seen_of(dataset, 3, 3);
  const double sum = mean(seen.value) + mean(other.value) + mean(last.value) - 3 * 0.25 + 0.5;
  const torch::Tensor output = model.forward(gather_features(dataset, batch), batch, Dropout());
  EXPECT_NEAR(output[0][0].item<double>(), sum, 1e-5);
}

}  // namespace
}  // namespace coldframe::temporal

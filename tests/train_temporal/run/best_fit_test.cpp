#include <gtest/gtest.h>

#include "train_temporal/models/model_config.h"
#include "train_temporal/run/cross_validation.h"

namespace coldframe::temporal {
namespace {

FinishedFit fit_of(const char* frame, double loss, std::optional<double> lead = {}) {
  FinishedFit fit{{kAutoModel, 0, 0, 0, 0, frame}, nullptr, {}};
  fit.record.history.push_back({.validation = loss});
  fit.record.lead = lead;
  return fit;
}

std::size_t best(double model, double summary, std::optional<double> lead) {
  return best_of(std::vector{fit_of(kSequence, model), fit_of(kSummaryModel, summary, lead)});
}

TEST(BestFit, ASummaryGivesWayToAModelThatIsClearlyBetter) {
  EXPECT_EQ(best(0.60, 0.62, 0.1), 1u);
  EXPECT_EQ(best(0.50, 0.62, 0.1), 0u);
  EXPECT_EQ(best(0.62, 0.60, 0.1), 1u);
}

TEST(BestFit, AFigureThatIsWatchedDecides) {
  std::vector fits{fit_of(kSequence, 0.6), fit_of(kSummaryModel, 0.6, 0.1)};
  fits[0].record.history[0].figure = 0.8;
  fits[1].record.history[0].figure = 0.7;
  EXPECT_EQ(best_of(fits), 0u);
  fits[1].record.history[0].figure = 0.9;
  EXPECT_EQ(best_of(fits), 1u);
}

TEST(BestFit, ASummaryThatFoundNothingIsNoChoice) {
  EXPECT_EQ(best(0.62, 0.60, {}), 0u);
}

TEST(BestFit, FramesAreComparedAsTheyAre) {
  EXPECT_EQ(best_of(std::vector{fit_of("first", 0.5), fit_of("last", 0.4)}), 1u);
}

}  // namespace
}  // namespace coldframe::temporal

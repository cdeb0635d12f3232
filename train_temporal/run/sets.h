// `predict --sets`: what sets rest on, and the sets of new exams. A run has it in the table of its
// held-out predictions; a bundle, which names no exam, as their scores alone.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "train_temporal/evaluate/conformal.h"
#include "train_temporal/run/ensemble.h"
#include "train_temporal/run/predictions.h"

namespace coldframe::temporal {

inline constexpr const char* kHeldOutScores = "held_out_scores.csv";  // of a bundle

// That file of a run: a row (target,repeat,fold,patient,class,score) for each labelled held-out
// exam or frame, patients as numbers. Empty if a target is a time to an event, which has no sets.
std::string held_out_scores_csv(const std::filesystem::path& run,
                                const std::vector<Target>& targets);

class Sets {
 public:
  // `folder`: of a run or a bundle, with the models of `ensemble`. ConfigError for a time to an
  // event, too few patients of a class, or a bundle without scores; DataError for a damaged file.
  Sets(const std::filesystem::path& folder, Ensemble& ensemble, double level);

  // Adds columns to the predictions: set_CLASS, 1 if the set holds the class, else 0; of numbers
  // set_low and set_high. `scores` [target][model]: Ensemble::scores() of the same rows.
  void add_to(PredictionTable& table,
              const std::vector<std::vector<std::vector<double>>>& scores) const;

 private:
  std::vector<ConformalSets> of_;                 // each target
  std::vector<std::vector<std::size_t>> models_;  // of each fold
};

}  // namespace coldframe::temporal

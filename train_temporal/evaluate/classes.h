// The figures of each class against the rest: those of two classes, of which it is the positive
// one.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "train_temporal/evaluate/intervals.h"

namespace coldframe::temporal {

// The exams with two classes, `of_class` (1) and all others (0). A decision for another class is
// one against it.
std::vector<FoldScores> against_the_rest(std::span<const FoldScores> folds, std::size_t of_class);

struct FiguresOfClass {
  std::size_t exams = 0, patients = 0;  // that have it, in the first repeat
  std::vector<MetricSummary> summary;   // of metrics_of_one_class()
};
// [class] of a target of several. `headline`: the model's figures of all classes. Ranks are means
// over folds where the headline's are, so that this is the mean of the classes' where each fold
// holds them all; without such a figure, where half of the folds have the class.
std::vector<FiguresOfClass> figures_of_classes(std::span<const FoldScores> folds,
                                               std::span<const MetricSummary> headline,
                                               double level);

}  // namespace coldframe::temporal

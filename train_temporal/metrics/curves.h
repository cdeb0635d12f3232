// Values of curves at places that they share, and their mean.
#pragma once

#include <vector>

#include "train_temporal/metrics/metrics.h"

namespace coldframe::temporal {

// y of a curve at each of `grid`. ROC: linear between its points, the highest y at a vertical step.
// PR: the precision at the highest threshold that reaches the recall, so that the area is the
// average precision.
std::vector<double> roc_at(const Curve& curve, const std::vector<double>& grid);
std::vector<double> precision_at(const Curve& curve, const std::vector<double>& grid);

// Mean of several curves point by point, and their range. Curves may differ in length: each point
// takes those that reach it.
struct Averages {
  std::vector<double> mean, low, high;
};
Averages average(const std::vector<std::vector<double>>& curves);

}  // namespace coldframe::temporal

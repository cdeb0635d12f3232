// The drawings of the training report, each an HTML fragment.
#pragma once

#include <string>
#include <vector>

#include "train_temporal/report/report.h"

namespace coldframe::temporal {

// Mean and range over folds and seeds; then the validation loss of each fold.
std::string loss_charts(const TargetReport& report);
// Mean over folds with a band by patient, and the pooled curve; one line per class for many
// classes; the models' ROC together when there are several.
std::string roc_chart(const TargetReport& report);
std::string precision_recall_chart(const TargetReport& report);
std::string model_roc_chart(const TargetReport& report);
std::string confusion_chart(const TargetReport& report);
std::string reliability_chart(const TargetReport& report);
std::string score_chart(const TargetReport& report);
std::string frames_chart(const TargetReport& report);
// Predicted against true numbers, with the line on which both are equal.
std::string scatter_chart(const TargetReport& report);

inline constexpr std::size_t kMostLines = 8;  // as many colours as a chart has

// Mean of several curves point by point, and their range. Curves may differ in length: each point
// takes those that reach it.
struct Averages {
  std::vector<double> mean, low, high;
};
Averages average(const std::vector<std::vector<double>>& curves);

// The held-out exams of all folds of the first repeat together.
ScoredExams pooled_exams(const ModelResult& model);
std::vector<std::size_t> pooled_patients(const ModelResult& model);  // of each of them

// y of a curve at each of `grid`. ROC: linear between its points, the highest y at a vertical step.
// PR: the precision at the highest threshold that reaches the recall, so that the area is the
// average precision.
std::vector<double> roc_at(const Curve& curve, const std::vector<double>& grid);
std::vector<double> precision_at(const Curve& curve, const std::vector<double>& grid);

}  // namespace coldframe::temporal

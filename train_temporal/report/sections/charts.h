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

// The held-out exams of all folds of the first repeat together.
ScoredExams pooled_exams(const ModelResult& model);

}  // namespace coldframe::temporal

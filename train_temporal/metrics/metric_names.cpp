// Which figures there are, and what they are called.
#include <algorithm>
#include <array>

#include "train_temporal/metrics/metrics.h"

namespace coldframe::temporal {
namespace {

struct MetricInfo {
  Metric metric;
  std::string_view key, title;
};

constexpr std::array kMetrics = {
    MetricInfo{Metric::kAuroc, "auroc", "AUROC"},
    MetricInfo{Metric::kAuprc, "auprc", "AUPRC"},
    MetricInfo{Metric::kSensitivity, "sensitivity", "Sensitivity"},
    MetricInfo{Metric::kSpecificity, "specificity", "Specificity"},
    MetricInfo{Metric::kBalancedAccuracy, "balanced_accuracy", "Balanced accuracy"},
    MetricInfo{Metric::kF1, "f1", "F1"},
    MetricInfo{Metric::kAccuracy, "accuracy", "Accuracy"},
    MetricInfo{Metric::kKappa, "kappa", "Kappa"},
    MetricInfo{Metric::kQuadraticKappa, "quadratic_kappa", "Quadratic kappa"},
    MetricInfo{Metric::kBrier, "brier", "Brier score"},
    MetricInfo{Metric::kEce, "ece", "ECE"},
    MetricInfo{Metric::kCalibrationSlope, "calibration_slope", "Calibration slope"},
    MetricInfo{Metric::kCalibrationIntercept, "calibration_intercept", "Calibration intercept"},
    MetricInfo{Metric::kLogLoss, "log_loss", "Log loss"},
    MetricInfo{Metric::kR2, "r2", "R²"},
    MetricInfo{Metric::kMae, "mae", "MAE"},
    MetricInfo{Metric::kRmse, "rmse", "RMSE"},
    MetricInfo{Metric::kPearson, "pearson", "Pearson"},
    MetricInfo{Metric::kSpearman, "spearman", "Spearman"},
    MetricInfo{Metric::kClassMae, "class_mae", "MAE of classes"},
    MetricInfo{Metric::kHarrellC, "harrell_c", "Harrell's C"},
    MetricInfo{Metric::kUnoC, "uno_c", "Uno's C"},
    MetricInfo{Metric::kTimeAuroc, "time_auroc", "AUROC over time"},
    MetricInfo{Metric::kIntegratedBrier, "integrated_brier", "Integrated Brier"},
};

const MetricInfo& info(Metric metric) {
  return *std::ranges::find(kMetrics, metric, &MetricInfo::metric);
}

}  // namespace

std::string_view metric_key(Metric metric) {
  return info(metric).key;
}
std::string_view metric_title(Metric metric) {
  return info(metric).title;
}

std::span<const Metric> metrics_for(std::size_t classes, Scale scale) {
  static constexpr std::array kBinary = {Metric::kAuroc,
                                         Metric::kAuprc,
                                         Metric::kSensitivity,
                                         Metric::kSpecificity,
                                         Metric::kBalancedAccuracy,
                                         Metric::kF1,
                                         Metric::kAccuracy,
                                         Metric::kKappa,
                                         Metric::kBrier,
                                         Metric::kEce,
                                         Metric::kCalibrationSlope,
                                         Metric::kCalibrationIntercept,
                                         Metric::kLogLoss};
  static constexpr std::array kMany = {Metric::kAuroc, Metric::kAuprc,    Metric::kBalancedAccuracy,
                                       Metric::kF1,    Metric::kAccuracy, Metric::kKappa,
                                       Metric::kBrier, Metric::kEce,      Metric::kLogLoss};
  static constexpr std::array kOrdered = {Metric::kQuadraticKappa,
                                          Metric::kClassMae,
                                          Metric::kAccuracy,
                                          Metric::kBalancedAccuracy,
                                          Metric::kF1,
                                          Metric::kBrier,
                                          Metric::kEce,
                                          Metric::kLogLoss};
  static constexpr std::array kNumbers = {Metric::kR2, Metric::kMae, Metric::kRmse,
                                          Metric::kPearson, Metric::kSpearman};
  static constexpr std::array kTimes = {Metric::kHarrellC, Metric::kUnoC, Metric::kTimeAuroc,
                                        Metric::kIntegratedBrier};
  if (scale == Scale::kTime) return kTimes;
  if (scale == Scale::kNumber) return kNumbers;
  if (scale == Scale::kOrdinal) return kOrdered;
  if (classes == 2) return kBinary;
  return kMany;
}

Metric main_metric(Scale scale) {
  if (scale == Scale::kTime) return Metric::kHarrellC;
  if (scale == Scale::kNumber) return Metric::kR2;
  return scale == Scale::kOrdinal ? Metric::kQuadraticKappa : Metric::kAuroc;
}

double chance_level(Metric metric) {
  const bool ranks = metric == Metric::kAuroc || metric == Metric::kHarrellC ||
                     metric == Metric::kUnoC || metric == Metric::kTimeAuroc;
  return ranks ? 0.5 : 0.0;
}

}  // namespace coldframe::temporal

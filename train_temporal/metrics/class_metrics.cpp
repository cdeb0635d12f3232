// The metrics of predicted classes.
#include <algorithm>
#include <cmath>
#include <limits>

#include "train_temporal/metrics/metric_input.h"
#include "train_temporal/metrics/metric_table.h"

namespace coldframe::temporal {
namespace {

// Steps of single patients make differences of recalls too coarse for fewer.
constexpr std::size_t kLeastOfRecalls = 10;

MetricValue mean_over_classes(const MetricInput& in,
                              MetricValue (*statistic)(std::span<const double>,
                                                       std::span<const int>)) {
  const ScoredExams& exams = in.exams;
  if (exams.label_count() == 2) {
    const OneVsRest positive = one_vs_rest(exams, 1);
    return statistic(positive.score, positive.positive);
  }
  if (std::string why = in.missing_class(); !why.empty()) return MetricValue::none(why);
  double sum = 0;
  for (std::size_t c = 0; c < exams.label_count(); ++c) {
    const OneVsRest rest = one_vs_rest(exams, c);
    const MetricValue figure = statistic(rest.score, rest.positive);
    if (!figure.defined()) return figure;
    sum += figure.value;
  }
  return MetricValue::of(sum / static_cast<double>(exams.label_count()));
}

MetricValue recall(const ConfusionMatrix& counts, std::size_t of_class) {
  std::size_t total = 0;
  for (std::size_t decided : counts[of_class]) total += decided;
  if (total == 0) return MetricValue::none(of_class == 1 ? "no positive exam" : "no negative exam");
  return MetricValue::of(static_cast<double>(counts[of_class][of_class]) /
                         static_cast<double>(total));
}

MetricValue balanced_accuracy(const MetricInput& in) {
  const ScoredExams& exams = in.exams;
  if (std::string why = in.missing_class(); !why.empty()) return MetricValue::none(why);
  const ConfusionMatrix& counts = in.confusion();
  double sum = 0;
  for (std::size_t c = 0; c < exams.label_count(); ++c) sum += recall(counts, c).value;
  return MetricValue::of(sum / static_cast<double>(exams.label_count()));
}

MetricValue f1_of_class(const ConfusionMatrix& counts, std::size_t of_class) {
  std::size_t truly = 0, decided = 0;
  for (std::size_t c = 0; c < counts.size(); ++c) {
    truly += counts[of_class][c];
    decided += counts[c][of_class];
  }
  if (truly + decided == 0) return MetricValue::none("a class that no exam has and none was given");
  return MetricValue::of(2.0 * static_cast<double>(counts[of_class][of_class]) /
                         static_cast<double>(truly + decided));
}

MetricValue f1(const MetricInput& in) {
  const ScoredExams& exams = in.exams;
  const ConfusionMatrix& counts = in.confusion();
  if (exams.label_count() == 2) return f1_of_class(counts, 1);
  double sum = 0;
  for (std::size_t c = 0; c < exams.label_count(); ++c) {
    const MetricValue one = f1_of_class(counts, c);
    if (!one.defined()) return one;
    sum += one.value;
  }
  return MetricValue::of(sum / static_cast<double>(exams.label_count()));
}

MetricValue accuracy(const MetricInput& in) {
  const ScoredExams& exams = in.exams;
  std::size_t right = 0;
  for (std::size_t i = 0; i < exams.size(); ++i) right += exams.label[i] == exams.decision[i];
  return MetricValue::of(static_cast<double>(right) / static_cast<double>(exams.size()));
}

double quadratic(double distance) {
  return distance * distance;
}
double any_other(double distance) {
  return distance == 0 ? 0 : 1;
}

MetricValue kappa(const MetricInput& in, double (*cost)(double)) {
  const ConfusionMatrix& counts = in.confusion();
  const std::size_t classes = counts.size();
  std::vector<double> truly(classes, 0), decided(classes, 0);
  for (std::size_t i = 0; i < classes; ++i) {
    for (std::size_t j = 0; j < classes; ++j) {
      truly[i] += static_cast<double>(counts[i][j]);
      decided[j] += static_cast<double>(counts[i][j]);
    }
  }
  double observed = 0, expected = 0;
  for (std::size_t i = 0; i < classes; ++i) {
    for (std::size_t j = 0; j < classes; ++j) {
      const double weight = cost(static_cast<double>(i) - static_cast<double>(j));
      observed += weight * static_cast<double>(counts[i][j]);
      expected += weight * truly[i] * decided[j] / static_cast<double>(in.exams.size());
    }
  }
  if (expected == 0) return MetricValue::none("one class only, in labels and decisions");
  return MetricValue::of(1.0 - observed / expected);
}

MetricValue brier(const MetricInput& in) {
  const ScoredExams& exams = in.exams;
  double sum = 0;
  const std::size_t first = exams.label_count() == 2 ? 1 : 0;  // binary: class 1 alone
  for (std::size_t i = 0; i < exams.size(); ++i) {
    for (std::size_t c = first; c < exams.label_count(); ++c) {
      const double error = exams.score(i, c) - (exams.label[i] == static_cast<int>(c) ? 1.0 : 0.0);
      sum += error * error;
    }
  }
  return MetricValue::of(sum / static_cast<double>(exams.size()));
}

MetricValue log_loss(const MetricInput& in) {
  const ScoredExams& exams = in.exams;
  constexpr double kEpsilon = std::numeric_limits<double>::epsilon();  // as scikit-learn clips
  double sum = 0;
  for (std::size_t i = 0; i < exams.size(); ++i) {
    const double p = exams.score(i, static_cast<std::size_t>(exams.label[i]));
    sum -= std::log(std::clamp(p, kEpsilon, 1.0 - kEpsilon));
  }
  return MetricValue::of(sum / static_cast<double>(exams.size()));
}

MetricValue class_mae(const MetricInput& in) {
  const ScoredExams& exams = in.exams;
  double sum = 0;
  for (std::size_t i = 0; i < exams.size(); ++i)
    sum += std::abs(exams.label[i] - exams.decision[i]);
  return MetricValue::of(sum / static_cast<double>(exams.size()));
}

constexpr MetricRow kClassMetrics[] = {
    {.key = "auroc",  // exact rank statistic, ties count half; macro one-vs-rest for C > 2
     .title = "AUROC",
     .labels = kNominalClasses,
     .compute = [](const MetricInput& in) { return mean_over_classes(in, auroc); },
     .shape = Shape::kShare,
     .units = Units::kPairs,
     .chance = 0.5,
     .over_folds = true,
     .over_targets = true,
     .given_classes = true,
     .compared = true},
    {.key = "auprc",  // average precision; macro one-vs-rest for C > 2
     .title = "AUPRC",
     .labels = kNominalClasses,
     .compute = [](const MetricInput& in) { return mean_over_classes(in, average_precision); },
     .shape = Shape::kShare,
     .least_units = 20,  // 4 in each of 5 folds
     .over_folds = true,
     .over_targets = true,
     .compared = true},
    {.key = "sensitivity",
     .title = "Sensitivity",
     .labels = kTwoClasses,
     .compute = [](const MetricInput& in) { return recall(in.confusion(), 1); },
     .shape = Shape::kShare,
     .units = Units::kPositives,
     .least_in_differences = kLeastOfRecalls,
     .given_classes = true},
    {.key = "specificity",
     .title = "Specificity",
     .labels = kTwoClasses,
     .compute = [](const MetricInput& in) { return recall(in.confusion(), 0); },
     .shape = Shape::kShare,
     .units = Units::kNegatives,
     .least_in_differences = kLeastOfRecalls,
     .given_classes = true},
    {.key = "quadratic_kappa",  // takes the order of classes as a scale
     .title = "Quadratic kappa",
     .labels = kOrdinalClasses,
     .compute = [](const MetricInput& in) { return kappa(in, quadratic); },
     .shape = Shape::kSigned,
     .units = Units::kPatients,
     .compared = true},
    {.key = "class_mae",  // mean number of classes between decision and label
     .title = "MAE of classes",
     .labels = kOrdinalClasses,
     .compute = class_mae,
     .shape = Shape::kPositive,
     .units = Units::kPatients,
     .compared = true},
    {.key = "balanced_accuracy",  // mean recall over classes
     .title = "Balanced accuracy",
     .labels = kAllClasses,
     .compute = balanced_accuracy,
     .shape = Shape::kShare,
     .given_classes = true,
     .compared = true},
    {.key = "f1",  // binary: of class 1; else macro
     .title = "F1",
     .labels = kAllClasses,
     .compute = f1,
     .shape = Shape::kShare},
    {.key = "accuracy",
     .title = "Accuracy",
     .labels = kAllClasses,
     .compute = accuracy,
     .shape = Shape::kShare,
     .units = Units::kPatients},
    {.key = "kappa",  // Cohen's: classes are equally far from each other
     .title = "Kappa",
     .labels = kNominalClasses,
     .compute = [](const MetricInput& in) { return kappa(in, any_other); },
     .shape = Shape::kSigned,
     .units = Units::kPatients},
    {.key = "brier",  // binary: mean (p − y)²; else summed over classes
     .title = "Brier score",
     .labels = kAllClasses,
     .compute = brier,
     .shape = Shape::kPositive,
     .units = Units::kPatients,
     .least_units = 10},
    {.key = "ece",  // see calibration.h; binning biases it upwards
     .title = "ECE",
     .labels = kAllClasses,
     .compute = [](const MetricInput& in) { return expected_calibration_error(in.exams); },
     .shape = Shape::kNone},
    {.key = "calibration_slope",
     .title = "Calibration slope",
     .labels = kTwoClasses,
     .compute = [](const MetricInput& in) { return in.calibration().slope; },
     .shape = Shape::kAnywhere,
     .least_units = 10,
     .given_classes = true},
    {.key = "calibration_intercept",
     .title = "Calibration intercept",
     .labels = kTwoClasses,
     .compute = [](const MetricInput& in) { return in.calibration().intercept; },
     .shape = Shape::kAnywhere,
     .least_units = 10},
    {.key = "log_loss",
     .title = "Log loss",
     .labels = kAllClasses,
     .compute = log_loss,
     .shape = Shape::kPositive,
     .units = Units::kPatients,
     .least_units = 10},
};

}  // namespace

std::span<const MetricRow> class_metrics() {
  return kClassMetrics;
}

std::vector<int> decide(std::span<const double> probability, std::size_t classes,
                        double threshold) {
  std::vector<int> decision(probability.size() / classes);
  for (std::size_t i = 0; i < decision.size(); ++i) {
    const auto row = probability.subspan(i * classes, classes);
    if (classes == 2) {
      decision[i] = row[1] >= threshold;
    } else {
      decision[i] = static_cast<int>(std::max_element(row.begin(), row.end()) - row.begin());
    }
  }
  return decision;
}

ConfusionMatrix confusion_matrix(const ScoredExams& exams) {
  ConfusionMatrix counts(exams.label_count(), std::vector<std::size_t>(exams.label_count(), 0));
  for (std::size_t i = 0; i < exams.size(); ++i) {
    ++counts[static_cast<std::size_t>(exams.label[i])][static_cast<std::size_t>(exams.decision[i])];
  }
  return counts;
}

}  // namespace coldframe::temporal

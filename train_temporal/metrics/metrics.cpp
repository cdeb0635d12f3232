#include "train_temporal/metrics/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/text/text.h"
#include "train_temporal/metrics/calibration.h"
#include "train_temporal/metrics/survival/survival_metrics.h"

namespace coldframe::temporal {
namespace {

using Counts = std::vector<std::vector<std::size_t>>;  // [true][decided]

std::vector<std::size_t> exams_per_class(const ScoredExams& exams) {
  std::vector<std::size_t> counts(exams.classes, 0);
  for (int label : exams.label) ++counts[static_cast<std::size_t>(label)];
  return counts;
}

// Why a metric that needs every class has no value; empty when it has one.
std::string missing_class(const ScoredExams& exams) {
  const std::vector<std::size_t> counts = exams_per_class(exams);
  for (std::size_t c = 0; c < counts.size(); ++c) {
    if (counts[c] > 0) continue;
    if (exams.classes > 2) return concat("no exam of class number ", c);
    return c == 1 ? "no positive exam" : "no negative exam";
  }
  return {};
}

MetricValue mean_over_classes(const ScoredExams& exams,
                              MetricValue (*statistic)(std::span<const double>,
                                                       std::span<const int>)) {
  if (exams.classes == 2) {
    const OneVsRest positive = one_vs_rest(exams, 1);
    return statistic(positive.score, positive.positive);
  }
  if (std::string why = missing_class(exams); !why.empty()) return MetricValue::none(why);
  double sum = 0;
  for (std::size_t c = 0; c < exams.classes; ++c) {
    const OneVsRest rest = one_vs_rest(exams, c);
    const MetricValue figure = statistic(rest.score, rest.positive);
    if (!figure.defined()) return figure;
    sum += figure.value;
  }
  return MetricValue::of(sum / static_cast<double>(exams.classes));
}

MetricValue recall(const Counts& counts, std::size_t of_class) {
  std::size_t total = 0;
  for (std::size_t decided : counts[of_class]) total += decided;
  if (total == 0) return MetricValue::none(of_class == 1 ? "no positive exam" : "no negative exam");
  return MetricValue::of(static_cast<double>(counts[of_class][of_class]) /
                         static_cast<double>(total));
}

MetricValue balanced_accuracy(const ScoredExams& exams) {
  if (std::string why = missing_class(exams); !why.empty()) return MetricValue::none(why);
  const Counts counts = confusion_matrix(exams);
  double sum = 0;
  for (std::size_t c = 0; c < exams.classes; ++c) sum += recall(counts, c).value;
  return MetricValue::of(sum / static_cast<double>(exams.classes));
}

MetricValue f1_of_class(const Counts& counts, std::size_t of_class) {
  std::size_t truly = 0, decided = 0;
  for (std::size_t c = 0; c < counts.size(); ++c) {
    truly += counts[of_class][c];
    decided += counts[c][of_class];
  }
  if (truly + decided == 0) return MetricValue::none("a class that no exam has and none was given");
  return MetricValue::of(2.0 * static_cast<double>(counts[of_class][of_class]) /
                         static_cast<double>(truly + decided));
}

MetricValue f1(const ScoredExams& exams) {
  const Counts counts = confusion_matrix(exams);
  if (exams.classes == 2) return f1_of_class(counts, 1);
  double sum = 0;
  for (std::size_t c = 0; c < exams.classes; ++c) {
    const MetricValue one = f1_of_class(counts, c);
    if (!one.defined()) return one;
    sum += one.value;
  }
  return MetricValue::of(sum / static_cast<double>(exams.classes));
}

MetricValue accuracy(const ScoredExams& exams) {
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

MetricValue kappa(const ScoredExams& exams, double (*cost)(double)) {
  const Counts counts = confusion_matrix(exams);
  const std::size_t classes = exams.classes;
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
      expected += weight * truly[i] * decided[j] / static_cast<double>(exams.size());
    }
  }
  if (expected == 0) return MetricValue::none("one class only, in labels and decisions");
  return MetricValue::of(1.0 - observed / expected);
}

MetricValue brier(const ScoredExams& exams) {
  double sum = 0;
  const std::size_t first = exams.classes == 2 ? 1 : 0;  // binary: class 1 alone
  for (std::size_t i = 0; i < exams.size(); ++i) {
    for (std::size_t c = first; c < exams.classes; ++c) {
      const double error = exams.score(i, c) - (exams.label[i] == static_cast<int>(c) ? 1.0 : 0.0);
      sum += error * error;
    }
  }
  return MetricValue::of(sum / static_cast<double>(exams.size()));
}

MetricValue log_loss(const ScoredExams& exams) {
  constexpr double kEpsilon = std::numeric_limits<double>::epsilon();  // as scikit-learn clips
  double sum = 0;
  for (std::size_t i = 0; i < exams.size(); ++i) {
    const double p = exams.score(i, static_cast<std::size_t>(exams.label[i]));
    sum -= std::log(std::clamp(p, kEpsilon, 1.0 - kEpsilon));
  }
  return MetricValue::of(sum / static_cast<double>(exams.size()));
}

MetricValue class_mae(const ScoredExams& exams) {
  double sum = 0;
  for (std::size_t i = 0; i < exams.size(); ++i)
    sum += std::abs(exams.label[i] - exams.decision[i]);
  return MetricValue::of(sum / static_cast<double>(exams.size()));
}

// Undefined when nothing can be computed from these exams.
MetricValue unusable(const ScoredExams& exams) {
  if (exams.size() == 0) return MetricValue::none("no exams");
  if (!std::ranges::all_of(exams.probability, [](double p) { return std::isfinite(p); })) {
    const bool numbers = exams.scale == Scale::kNumber || exams.scale == Scale::kTime;
    return MetricValue::none(numbers ? "a prediction is not a number"
                                     : "a predicted probability is not a number");
  }
  return MetricValue::of(0);
}

CalibrationLine line_of(const ScoredExams& exams) {
  const OneVsRest positive = one_vs_rest(exams, 1);
  return calibration_line(positive.score, positive.positive);
}

// Expects exams that unusable() accepts.
MetricValue figure_of(Metric metric, const ScoredExams& exams) {
  switch (metric) {
    case Metric::kAuroc:
      return mean_over_classes(exams, auroc);
    case Metric::kAuprc:
      return mean_over_classes(exams, average_precision);
    case Metric::kSensitivity:
      return recall(confusion_matrix(exams), 1);
    case Metric::kSpecificity:
      return recall(confusion_matrix(exams), 0);
    case Metric::kBalancedAccuracy:
      return balanced_accuracy(exams);
    case Metric::kF1:
      return f1(exams);
    case Metric::kAccuracy:
      return accuracy(exams);
    case Metric::kKappa:
      return kappa(exams, any_other);
    case Metric::kQuadraticKappa:
      return kappa(exams, quadratic);
    case Metric::kBrier:
      return brier(exams);
    case Metric::kEce:
      return expected_calibration_error(exams);
    case Metric::kCalibrationSlope:
      return line_of(exams).slope;
    case Metric::kCalibrationIntercept:
      return line_of(exams).intercept;
    case Metric::kLogLoss:
      return log_loss(exams);
    case Metric::kR2:
      return r_squared(exams.number, exams.probability);
    case Metric::kMae:
      return mean_absolute_error(exams.number, exams.probability);
    case Metric::kRmse:
      return root_mean_squared_error(exams.number, exams.probability);
    case Metric::kPearson:
      return pearson(exams.number, exams.probability);
    case Metric::kSpearman:
      return spearman(exams.number, exams.probability);
    case Metric::kClassMae:
      return class_mae(exams);
    case Metric::kHarrellC:
    case Metric::kUnoC:
    case Metric::kTimeAuroc:
    case Metric::kIntegratedBrier:
      return survival_metric(metric, exams);
  }
  return MetricValue::none("unknown metric");
}

}  // namespace

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

MetricValue compute_metric(Metric metric, const ScoredExams& exams) {
  const MetricValue problem = unusable(exams);
  return problem.defined() ? figure_of(metric, exams) : problem;
}

std::vector<MetricValue> compute_metrics(const ScoredExams& exams, std::optional<Metric> skipped) {
  const MetricValue problem = unusable(exams);
  std::vector<MetricValue> figures;
  for (Metric metric : metrics_for(exams.classes, exams.scale)) {
    if (metric == skipped) {
      figures.push_back(MetricValue::none("skipped"));
    } else if (!problem.defined()) {
      figures.push_back(problem);
    } else if (metric == Metric::kCalibrationSlope) {
      const CalibrationLine line = line_of(exams);
      figures.push_back(line.slope);
      figures.push_back(line.intercept);
    } else if (metric != Metric::kCalibrationIntercept) {  // comes with the slope
      figures.push_back(figure_of(metric, exams));
    }
  }
  return figures;
}

std::vector<std::vector<std::size_t>> confusion_matrix(const ScoredExams& exams) {
  Counts counts(exams.classes, std::vector<std::size_t>(exams.classes, 0));
  for (std::size_t i = 0; i < exams.size(); ++i) {
    ++counts[static_cast<std::size_t>(exams.label[i])][static_cast<std::size_t>(exams.decision[i])];
  }
  return counts;
}

}  // namespace coldframe::temporal

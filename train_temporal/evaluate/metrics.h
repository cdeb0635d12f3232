// The inputs of metrics, and the basic statistics, equal to scikit-learn's and SciPy's. Pure
// functions over plain vectors. The metrics themselves are rows (metric_table.h).
#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "train_temporal/evaluate/metrics.h"

namespace coldframe::temporal {

// A number, or NaN and the reason why it is undefined.
struct MetricValue {
  double value = std::numeric_limits<double>::quiet_NaN();
  std::string undefined;  // empty: `value` holds

  static MetricValue of(double value) { return {value, {}}; }
  static MetricValue none(std::string why) {
    return {std::numeric_limits<double>::quiet_NaN(), why};
  }
  bool defined() const { return undefined.empty(); }
};

// The measurement scale of labels: unordered classes, ordered classes, numbers, or times to an
// event.
enum class Scale { kNominal, kOrdinal, kNumber, kTime };

// The exam of a row, and for per-frame targets its frame. Any numbers that identify the exams and
// ascend with the frames.
struct FrameOfExam {
  std::size_t exam = 0, frame = 0;
};

// Exams, or frames of exams, with true labels, predictions and decisions. A row of `predicted`
// holds
//   for classes: the probability of each; binary targets have two, of which class 1 is positive;
//   of a number: the prediction. `number` is the true one, labels and decisions are 0;
//   of a time to an event: a risk, then the share without an event at each of `horizons`. `number`
//   is the time, and the label 1 where the event came then, 0 where the exam was followed up to it
//   without one.
// A single type instead of a variant of three: resampling, pooling, averaging and leaving out
// patients do not depend on what was predicted.
struct ScoredExams {
  std::size_t width = 2;
  std::vector<double> predicted;  // [N, width] row-major
  std::vector<int> label;         // [N]
  std::vector<int> decision;      // [N] see decide()
  Scale scale = Scale::kNominal;
  std::vector<double> number = {};    // [N] true numbers
  std::vector<double> horizons = {};  // ascending
  bool per_frame = false;
  std::vector<FrameOfExam> frame = {};  // [N], or empty if only exams count

  std::size_t size() const { return label.size(); }
  std::size_t label_count() const { return scale == Scale::kTime ? 2 : width; }
  double score(std::size_t exam, std::size_t column) const {
    return predicted[exam * width + column];
  }
};

// Binary: class 1 if its probability ≥ threshold. Multi-class: the most probable class (the first
// of equals); `threshold` is unused.
std::vector<int> decide(std::span<const double> probability, std::size_t classes, double threshold);

// The two rank statistics. `positive` [N] is 0 or 1. Both require exams of each class, although the
// average precision of positives only could be called 1.
MetricValue auroc(std::span<const double> score, std::span<const int> positive);
MetricValue average_precision(std::span<const double> score, std::span<const int> positive);

// Metrics of predicted numbers.
MetricValue r_squared(std::span<const double> truth, std::span<const double> predicted);
MetricValue mean_absolute_error(std::span<const double> truth, std::span<const double> predicted);
MetricValue root_mean_squared_error(std::span<const double> truth,
                                    std::span<const double> predicted);
MetricValue pearson(std::span<const double> x, std::span<const double> y);
MetricValue spearman(std::span<const double> x, std::span<const double> y);

using ConfusionMatrix = std::vector<std::vector<std::size_t>>;  // [true][decided]
ConfusionMatrix confusion_matrix(const ScoredExams& exams);

// A curve has one point per distinct score, from the highest threshold down. ROC: x = false
// positive rate, y = true positive rate, first point (0, 0) at +∞. PR: x = recall, y = precision,
// first point (0, 1) at +∞. Empty if a class has no exam.
struct Curve {
  std::vector<double> x, y, threshold;
};
Curve roc_curve(std::span<const double> score, std::span<const int> positive);
Curve precision_recall_curve(std::span<const double> score, std::span<const int> positive);

// One class against the rest: its scores and 0/1 labels.
struct OneVsRest {
  std::vector<double> score;
  std::vector<int> positive;
};
OneVsRest one_vs_rest(const ScoredExams& exams, std::size_t of_class);

// Curves evaluated on a common grid, and their mean.

// y of a curve at each point of `grid`. ROC: linear interpolation, the highest y at a vertical
// step. PR: the precision at the highest threshold that reaches the recall, so that the area is the
// average precision.
std::vector<double> roc_at(const Curve& curve, const std::vector<double>& grid);
std::vector<double> precision_at(const Curve& curve, const std::vector<double>& grid);

// Pointwise mean and range of several curves. Curves may differ in length: each point uses those
// that reach it.
struct Averages {
  std::vector<double> mean, low, high;
};
Averages average(const std::vector<std::vector<double>>& curves);

}  // namespace coldframe::temporal

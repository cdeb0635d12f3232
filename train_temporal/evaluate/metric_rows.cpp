#include "train_temporal/evaluate/metric_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "common/numbers/quantile.h"
#include "common/text/text.h"
#include "train_temporal/evaluate/metric_table.h"

namespace coldframe::temporal {

namespace {

// Rows of binary targets come ordered by score.
std::vector<FrameSequence> sequences_of(const ScoredExams& exams) {
  std::vector<std::size_t> order(exams.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) {
    return std::pair(exams.frame[i].exam, exams.frame[i].frame);
  });
  std::vector<FrameSequence> sequences;
  for (std::size_t k = 0; k < order.size(); ++k) {
    const bool first = k == 0 || exams.frame[order[k]].exam != exams.frame[order[k - 1]].exam;
    FrameSequence& sequence = first ? sequences.emplace_back() : sequences.back();
    sequence.label.push_back(exams.label[order[k]]);
    sequence.decision.push_back(exams.decision[order[k]]);
  }
  return sequences;
}

}  // namespace

const ConfusionMatrix& MetricInput::confusion() const {
  if (!confusion_) confusion_ = confusion_matrix(exams);
  return *confusion_;
}

const CalibrationLine& MetricInput::calibration() const {
  if (!calibration_) {
    const OneVsRest positive = one_vs_rest(exams, 1);
    calibration_ = calibration_line(positive.score, positive.positive);
  }
  return *calibration_;
}

const std::vector<FrameSequence>& MetricInput::sequences() const {
  if (!sequences_) sequences_ = sequences_of(exams);
  return *sequences_;
}

std::string MetricInput::missing_class() const {
  for (std::size_t c = 0; c < exams.label_count(); ++c) {
    if (std::ranges::find(exams.label, static_cast<int>(c)) != exams.label.end()) continue;
    if (exams.label_count() > 2) return concat("no exam of class number ", c);
    return c == 1 ? "no positive exam" : "no negative exam";
  }
  return {};
}

// The metrics of predicted classes.

namespace {

// Steps of single patients make differences of recalls too coarse for fewer.
constexpr std::size_t kMinOfRecalls = 10;

using ClassFigures = std::vector<MetricValue>;

// Each class against the rest.
template <MetricValue (*kStatistic)(std::span<const double>, std::span<const int>)>
ClassFigures against_the_rest(const MetricInput& in) {
  ClassFigures figures;
  for (std::size_t c = 0; c < in.exams.label_count(); ++c) {
    const OneVsRest rest = one_vs_rest(in.exams, c);
    figures.push_back(kStatistic(rest.score, rest.positive));
  }
  return figures;
}

// Undefined where it is so for one class.
MetricValue mean_of(const ClassFigures& figures) {
  double sum = 0;
  for (const MetricValue& figure : figures) {
    if (!figure.defined()) return figure;
    sum += figure.value;
  }
  return MetricValue::of(sum / static_cast<double>(figures.size()));
}

template <MetricValue (*kStatistic)(std::span<const double>, std::span<const int>)>
MetricValue of_ranks(const MetricInput& in) {
  if (in.exams.label_count() == 2) {
    const OneVsRest positive = one_vs_rest(in.exams, 1);
    return kStatistic(positive.score, positive.positive);
  }
  if (std::string why = in.missing_class(); !why.empty()) return MetricValue::none(why);
  return mean_of(against_the_rest<kStatistic>(in));
}

MetricValue recall(const ConfusionMatrix& counts, std::size_t of_class) {
  std::size_t total = 0;
  for (std::size_t decided : counts[of_class]) total += decided;
  if (total == 0) return MetricValue::none(of_class == 1 ? "no positive exam" : "no negative exam");
  return MetricValue::of(static_cast<double>(counts[of_class][of_class]) /
                         static_cast<double>(total));
}

MetricValue precision(const ConfusionMatrix& counts, std::size_t of_class) {
  std::size_t decided = 0;
  for (const auto& truly : counts) decided += truly[of_class];
  if (decided == 0) return MetricValue::none("never decided");
  return MetricValue::of(static_cast<double>(counts[of_class][of_class]) /
                         static_cast<double>(decided));
}

ClassFigures recalls(const MetricInput& in) {
  ClassFigures figures;
  for (std::size_t c = 0; c < in.exams.label_count(); ++c)
    figures.push_back(recall(in.confusion(), c));
  return figures;
}

MetricValue balanced_accuracy(const MetricInput& in) {
  if (std::string why = in.missing_class(); !why.empty()) return MetricValue::none(why);
  return mean_of(recalls(in));
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

ClassFigures f1_by_class(const MetricInput& in) {
  ClassFigures figures;
  for (std::size_t c = 0; c < in.exams.label_count(); ++c)
    figures.push_back(f1_of_class(in.confusion(), c));
  return figures;
}

MetricValue f1(const MetricInput& in) {
  return in.exams.label_count() == 2 ? f1_of_class(in.confusion(), 1) : mean_of(f1_by_class(in));
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
     .labels = kNominalClasses | kOneClass,
     .compute = of_ranks<auroc>,
     .shape = Shape::kShare,
     .units = Units::kPairs,
     .chance = 0.5,
     .over_folds = true,
     .mean_of_classes = 3,
     .by_class = against_the_rest<auroc>,
     .over_targets = true,
     .given_classes = true,
     .compared = true},
    {.key = "auprc",  // average precision; macro one-vs-rest for C > 2
     .title = "AUPRC",
     .labels = kNominalClasses | kOneClass,
     .compute = of_ranks<average_precision>,
     .shape = Shape::kShare,
     .min_units = 20,  // 4 in each of 5 folds
     .over_folds = true,
     .mean_of_classes = 3,
     .by_class = against_the_rest<average_precision>,
     .over_targets = true,
     .compared = true},
    {.key = "sensitivity",
     .title = "Sensitivity",
     .labels = kTwoClasses,
     .compute = [](const MetricInput& in) { return recall(in.confusion(), 1); },
     .shape = Shape::kShare,
     .units = Units::kPositives,
     .min_in_differences = kMinOfRecalls,
     .given_classes = true},
    {.key = "specificity",
     .title = "Specificity",
     .labels = kTwoClasses,
     .compute = [](const MetricInput& in) { return recall(in.confusion(), 0); },
     .shape = Shape::kShare,
     .units = Units::kNegatives,
     .min_in_differences = kMinOfRecalls,
     .given_classes = true},
    {.key = "recall",  // of one class: the sensitivity of its decisions
     .title = "Recall",
     .labels = kOneClass,
     .compute = [](const MetricInput& in) { return recall(in.confusion(), 1); },
     .shape = Shape::kShare,
     .units = Units::kPositives,
     .given_classes = true},
    {.key = "precision",
     .title = "Precision",
     .labels = kOneClass,
     .compute = [](const MetricInput& in) { return precision(in.confusion(), 1); },
     .shape = Shape::kShare,
     .units = Units::kDecided},
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
     .mean_of_classes = 2,
     .by_class = recalls,
     .given_classes = true,
     .compared = true},
    {.key = "f1",  // binary: of class 1; else macro
     .title = "F1",
     .labels = kAllClasses | kOneClass,
     .compute = f1,
     .shape = Shape::kShare,
     .mean_of_classes = 3,
     .by_class = f1_by_class},
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
     .min_units = 10},
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
     .min_units = 10,
     .given_classes = true},
    {.key = "calibration_intercept",
     .title = "Calibration intercept",
     .labels = kTwoClasses,
     .compute = [](const MetricInput& in) { return in.calibration().intercept; },
     .shape = Shape::kAnywhere,
     .min_units = 10},
    {.key = "log_loss",
     .title = "Log loss",
     .labels = kAllClasses,
     .compute = log_loss,
     .shape = Shape::kPositive,
     .units = Units::kPatients,
     .min_units = 10},
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

// The metrics of predicted numbers.

namespace {

double mean(std::span<const double> x) {
  return std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
}

double squared_errors(std::span<const double> a, std::span<const double> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum;
}

bool all_equal(std::span<const double> x) {
  return std::ranges::adjacent_find(x, std::ranges::not_equal_to{}) == x.end();
}

}  // namespace

MetricValue r_squared(std::span<const double> truth, std::span<const double> predicted) {
  if (truth.size() < 2) return MetricValue::none("fewer than two exams");
  if (all_equal(truth)) return MetricValue::none("all true values are equal");
  const std::vector<double> middle(truth.size(), mean(truth));
  const double deviations = squared_errors(truth, middle);
  if (deviations == 0) return MetricValue::none("the true values do not differ but by rounding");
  return MetricValue::of(1 - squared_errors(truth, predicted) / deviations);
}

MetricValue mean_absolute_error(std::span<const double> truth, std::span<const double> predicted) {
  if (truth.empty()) return MetricValue::none("no exams");
  double sum = 0;
  for (std::size_t i = 0; i < truth.size(); ++i) sum += std::abs(truth[i] - predicted[i]);
  return MetricValue::of(sum / static_cast<double>(truth.size()));
}

MetricValue root_mean_squared_error(std::span<const double> truth,
                                    std::span<const double> predicted) {
  if (truth.empty()) return MetricValue::none("no exams");
  return MetricValue::of(
      std::sqrt(squared_errors(truth, predicted) / static_cast<double>(truth.size())));
}

MetricValue pearson(std::span<const double> x, std::span<const double> y) {
  if (x.size() < 2) return MetricValue::none("fewer than two exams");
  if (all_equal(x)) return MetricValue::none("all true values are equal");
  if (all_equal(y)) return MetricValue::none("all predictions are equal");
  const double x_mean = mean(x), y_mean = mean(y);
  double xy = 0, xx = 0, yy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - x_mean) * (y[i] - y_mean);
    xx += (x[i] - x_mean) * (x[i] - x_mean);
    yy += (y[i] - y_mean) * (y[i] - y_mean);
  }
  if (xx == 0 || yy == 0) return MetricValue::none("the values do not differ but by rounding");
  return MetricValue::of(std::clamp(xy / std::sqrt(xx) / std::sqrt(yy), -1.0, 1.0));
}

MetricValue spearman(std::span<const double> x, std::span<const double> y) {
  return pearson(midranks(x), midranks(y));
}

namespace {

template <MetricValue (*kStatistic)(std::span<const double>, std::span<const double>)>
MetricValue of_numbers(const MetricInput& in) {
  return kStatistic(in.exams.number, in.exams.predicted);
}

constexpr MetricRow kNumberMetrics[] = {
    {.key = "r2",  // 1 − squared errors / squared deviations from the mean
     .title = "R²",
     .labels = kNumberLabels,
     .compute = of_numbers<r_squared>,
     .shape = Shape::kBelowOne,
     .compared = true},
    {.key = "mae",
     .title = "MAE",
     .labels = kNumberLabels,
     .compute = of_numbers<mean_absolute_error>,
     .shape = Shape::kError,
     .compared = true},
    {.key = "rmse",
     .title = "RMSE",
     .labels = kNumberLabels,
     .compute = of_numbers<root_mean_squared_error>,
     .shape = Shape::kError},
    {.key = "pearson",
     .title = "Pearson",
     .labels = kNumberLabels,
     .compute = of_numbers<pearson>,
     .shape = Shape::kSigned},
    {.key = "spearman",  // equal ones share the mean of their ranks
     .title = "Spearman",
     .labels = kNumberLabels,
     .compute = of_numbers<spearman>,
     .shape = Shape::kSigned,
     .compared = true},
};

}  // namespace

std::span<const MetricRow> number_metrics() {
  return kNumberMetrics;
}

// The metrics of classes per frame as the phases of surgery are judged by, each computed of one
// exam's frames and then averaged over exams. Frames without a label are left out.

namespace {

using Classes = std::vector<int>;  // of frames, or of segments

// Of a class in one exam; NaN where no label is of it.
double jaccard_of_class(const FrameSequence& frames, int c) {
  double both = 0, labelled = 0, either = 0;
  for (std::size_t i = 0; i < frames.label.size(); ++i) {
    const bool is = frames.label[i] == c, decided = frames.decision[i] == c;
    labelled += is;
    either += is || decided;
    both += is && decided;
  }
  return labelled > 0 ? both / either : std::nan("");
}

// The mean over classes of the mean over the exams that have the class in their labels.
MetricValue jaccard(const MetricInput& in) {
  if (std::string why = in.missing_class(); !why.empty()) return MetricValue::none(why);
  std::vector<double> sum(in.exams.label_count(), 0.0), exams(in.exams.label_count(), 0.0);
  for (const FrameSequence& frames : in.sequences()) {
    for (std::size_t c = 0; c < sum.size(); ++c) {
      const double share = jaccard_of_class(frames, static_cast<int>(c));
      if (std::isnan(share)) continue;
      sum[c] += share;
      exams[c] += 1;
    }
  }
  double mean = 0;
  for (std::size_t c = 0; c < sum.size(); ++c) {
    if (exams[c] == 0)
      return MetricValue::none(concat("class number ", c, " is never decided for"));
    mean += sum[c] / exams[c];
  }
  return MetricValue::of(mean / static_cast<double>(sum.size()));
}

// Frames of one class that follow each other.
struct Segment {
  int of_class = 0;
  double first = 0, behind = 0;  // frames
};

std::vector<Segment> segments_of(const Classes& frames) {
  std::vector<Segment> segments;
  for (std::size_t i = 0; i < frames.size(); ++i) {
    if (segments.empty() || segments.back().of_class != frames[i])
      segments.push_back({frames[i], static_cast<double>(i), 0});
    segments.back().behind = static_cast<double>(i + 1);
  }
  return segments;
}

double intersection_over_union(const Segment& a, const Segment& b) {
  if (a.of_class != b.of_class) return 0;
  const double both = std::min(a.behind, b.behind) - std::max(a.first, b.first);
  return both / (std::max(a.behind, b.behind) - std::min(a.first, b.first));
}

// A predicted segment is right where the true one of its class that it overlaps most is overlapped
// by so much, and by no earlier one.
double segment_f1(const FrameSequence& frames, double min_overlap) {
  const std::vector<Segment> truth = segments_of(frames.label);
  const std::vector<Segment> predicted = segments_of(frames.decision);
  std::vector<bool> found(truth.size(), false);
  for (const Segment& segment : predicted) {
    std::vector<double> overlap;
    for (const Segment& each : truth) overlap.push_back(intersection_over_union(segment, each));
    const auto most = std::ranges::max_element(overlap);
    if (*most >= min_overlap) found[static_cast<std::size_t>(most - overlap.begin())] = true;
  }
  const auto right = static_cast<double>(std::ranges::count(found, true));
  return 2 * right / static_cast<double>(truth.size() + predicted.size());
}

Classes classes_of(const std::vector<Segment>& segments) {
  Classes classes;
  for (const Segment& segment : segments) classes.push_back(segment.of_class);
  return classes;
}

// Insertions, deletions and substitutions that make one of the other (Levenshtein).
std::size_t edit_distance(const Classes& a, const Classes& b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0]++;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({row[j] + 1, diagonal + 1, changed});
    }
  }
  return row.back();
}

double edit_score(const FrameSequence& frames) {
  const Classes truth = classes_of(segments_of(frames.label));
  const Classes predicted = classes_of(segments_of(frames.decision));
  return 1 - static_cast<double>(edit_distance(truth, predicted)) /
                 static_cast<double>(std::max(truth.size(), predicted.size()));
}

template <typename Score>
MetricValue mean_over_exams(const MetricInput& in, const Score& score) {
  double sum = 0;
  for (const FrameSequence& frames : in.sequences()) sum += score(frames);
  return MetricValue::of(sum / static_cast<double>(in.sequences().size()));
}

template <int kPercent>
MetricValue segment_f1_at(const MetricInput& in) {
  return mean_over_exams(
      in, [](const FrameSequence& frames) { return segment_f1(frames, kPercent / 100.0); });
}

constexpr MetricRow segment_row(std::string_view key, std::string_view title,
                                MetricValue (*compute)(const MetricInput&)) {
  return {.key = key,
          .title = title,
          .labels = kAllClasses,
          .compute = compute,
          .shape = Shape::kShare,
          .units = Units::kPatients,
          .frames_only = true};
}

// F1 of segments and the edit score: Lea et al. 2017, Temporal convolutional networks for action
// segmentation and detection.
constexpr MetricRow kFrameMetrics[] = {
    {.key = "jaccard",  // mean over classes
     .title = "Jaccard",
     .labels = kAllClasses,
     .compute = jaccard,
     .shape = Shape::kShare,
     .frames_only = true,
     .mean_of_classes = 2},
    segment_row("segment_f1_10", "Segment F1@10", segment_f1_at<10>),
    segment_row("segment_f1_25", "Segment F1@25", segment_f1_at<25>),
    segment_row("segment_f1_50", "Segment F1@50", segment_f1_at<50>),
    segment_row("edit_score", "Edit score",
                [](const MetricInput& in) { return mean_over_exams(in, edit_score); }),
};

}  // namespace

std::span<const MetricRow> frame_metrics() {
  return kFrameMetrics;
}

}  // namespace coldframe::temporal

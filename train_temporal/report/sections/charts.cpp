#include "train_temporal/report/sections/charts.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>

#include "common/charts/html.h"
#include "common/text/text.h"
#include "train_temporal/metrics/calibration.h"
#include "train_temporal/metrics/curves.h"
#include "train_temporal/metrics/intervals/bounds.h"
#include "train_temporal/report/report_text.h"
#include "train_temporal/report/scale_words.h"

namespace coldframe::temporal {
namespace {

using html::Chart;
using html::Series;

std::vector<double> epochs(std::size_t count) {
  std::vector<double> x(count);
  std::iota(x.begin(), x.end(), 1);
  return x;
}

Series loss_series(const std::string& name, const std::vector<FoldCurve>& curves,
                   std::vector<double> FoldCurve::*loss) {
  std::vector<std::vector<double>> values;
  for (const FoldCurve& curve : curves) values.push_back(curve.*loss);
  // Fits stop at different epochs: behind the middle one the mean would be that of a few odd ones.
  std::vector<std::size_t> lengths;
  for (const auto& one : values) lengths.push_back(one.size());
  std::ranges::sort(lengths);
  for (auto& one : values) one.resize(std::min(one.size(), lengths[lengths.size() / 2]));
  const Averages mean = average(values);
  Series series{name, epochs(mean.mean.size()), mean.mean};
  if (curves.size() > 1) {
    series.low = mean.low;
    series.high = mean.high;
  }
  return series;
}

// The epoch that each fit keeps.
Series kept_epochs(const std::vector<FoldCurve>& curves) {
  Series kept{.name = "kept epoch of each fit", .points = true};
  for (const FoldCurve& curve : curves) {
    if (curve.best_epoch >= curve.validation_loss.size()) continue;
    kept.x.push_back(static_cast<double>(curve.best_epoch + 1));
    kept.y.push_back(curve.validation_loss[curve.best_epoch]);
  }
  return kept;
}

// True where the validation loss rose by a twentieth behind the kept epoch, while the training
// loss went on falling.
bool overfits(const FoldCurve& curve) {
  constexpr double kRise = 1.05;
  if (curve.best_epoch >= curve.validation_loss.size() || curve.train_loss.empty()) return false;
  return curve.validation_loss.back() > kRise * curve.validation_loss[curve.best_epoch] &&
         curve.train_loss.back() < curve.train_loss[curve.best_epoch];
}

std::string overfitting_text(const std::vector<FoldCurve>& curves) {
  const auto fits = std::ranges::count_if(curves, overfits);
  if (fits == 0) return {};
  return html::paragraph(concat(
      fits, " of ", plural(curves.size(), "fit"),
      " overfit after the epoch that was kept: the validation loss rose by more than 5 % while "
      "the training loss went on falling. Early stopping kept the model from before."));
}

// A histogram's outline: share of `values` (within [0, 1]) per bin.
Series outline(const std::string& name, const std::vector<double>& values, std::size_t bins) {
  std::vector<double> share(bins, 0);
  for (double value : values) {
    const double bin = std::clamp(std::floor(value * static_cast<double>(bins)), 0.0,
                                  static_cast<double>(bins - 1));
    share[static_cast<std::size_t>(bin)] += 1.0 / static_cast<double>(values.size());
  }
  Series series{name, {0.0}, {0.0}};
  for (std::size_t b = 0; b < bins; ++b) {
    for (std::size_t edge = b; edge <= b + 1; ++edge) {
      series.x.push_back(static_cast<double>(edge) / static_cast<double>(bins));
      series.y.push_back(share[b]);
    }
  }
  series.x.push_back(1.0);
  series.y.push_back(0.0);
  return series;
}

}  // namespace

ScoredExams pooled_exams(const ModelResult& model) {
  return pooled_by_repeat(model.folds).front().exams;
}

std::string loss_charts(const TargetReport& report) {
  if (report.curves.empty()) return {};
  const char* loss = words_of(report.scale).loss;
  const Chart mean{.title = "Loss, mean and range of " + plural(report.curves.size(), "fit"),
                   .x_label = "epoch",
                   .y_label = loss,
                   .series = {loss_series("training", report.curves, &FoldCurve::train_loss),
                              loss_series("validation", report.curves, &FoldCurve::validation_loss),
                              kept_epochs(report.curves)},
                   .whole_x = true};
  std::map<std::pair<std::size_t, std::size_t>, std::vector<FoldCurve>> by_fold;
  for (const FoldCurve& curve : report.curves) by_fold[{curve.repeat, curve.fold}].push_back(curve);
  const std::string said = overfitting_text(report.curves);
  if (by_fold.size() == 1) return line_chart(mean) + said;
  Chart folds{"Validation loss of each fold", "epoch", loss};
  folds.whole_x = true;
  for (const auto& [key, curves] : by_fold) {
    if (folds.series.size() == kMostLines) {
      folds.title = concat("Validation loss of the first ", kMostLines, " folds");
      break;
    }
    const bool repeated = by_fold.rbegin()->first.first > 0;
    const std::string name =
        repeated ? concat("repeat ", key.first, " fold ", key.second) : concat("fold ", key.second);
    Series series = loss_series(name, curves, &FoldCurve::validation_loss);
    series.low.clear();
    series.high.clear();
    folds.series.push_back(std::move(series));
  }
  return line_chart(mean) + line_chart(folds) + said;
}

std::string confusion_chart(const TargetReport& report) {
  std::vector<std::vector<double>> cells;
  for (const auto& row : confusion_matrix(pooled_exams(report.models.front()))) {
    cells.emplace_back(row.begin(), row.end());
  }
  return html::matrix_chart(
      concat("Held-out ", rows_name(report), ": true class (row), decision (column)"),
      report.classes, report.classes, cells);
}

std::string reliability_chart(const TargetReport& report) {
  Chart chart{concat("Calibration, with ", fixed(100 * report.bootstrap.level, 0),
                     " % intervals by patient"),
              report.classes.size() == 2 ? "predicted probability of '" + report.classes[1] + "'"
                                         : "predicted probability of the decision",
              report.classes.size() == 2 ? "observed share" : "share of right decisions"};
  chart.unit_square = chart.diagonal = true;
  Series line{concat("held-out ", rows_name(report))};
  const FoldScores pooled = pooled_by_repeat(report.models.front().folds).front();
  for (const ReliabilityBin& bin : reliability(pooled.exams, kReliabilityBins, pooled.patient)) {
    if (bin.count == 0) continue;
    const Bounds bounds = share_bounds(bin.observed, bin.spread, report.bootstrap.level);
    line.x.push_back(bin.mean_probability);
    line.y.push_back(bin.observed);
    line.low.push_back(bounds.low.value);
    line.high.push_back(bounds.high.value);
  }
  chart.series = {line, {.name = "bins", .x = line.x, .y = line.y, .points = true}};
  return line_chart(chart);
}

std::string score_chart(const TargetReport& report) {
  const ScoredExams all = pooled_exams(report.models.front());
  const bool binary = report.classes.size() == 2;
  Chart chart{"Predicted probabilities by true class",
              binary ? "probability of '" + report.classes[1] + "'"
                     : std::string("probability given to the true class"),
              concat("share of the class's ", rows_name(report))};
  for (std::size_t c = 0; c < std::min(report.classes.size(), kMostLines); ++c) {
    std::vector<double> scores;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const double score = all.score(i, binary ? 1 : c);
      if (all.label[i] == static_cast<int>(c) && std::isfinite(score)) scores.push_back(score);
    }
    if (!scores.empty())
      chart.series.push_back(outline(report.classes[c], scores, binary ? 20 : 10));
  }
  return line_chart(chart);
}

std::string scatter_chart(const TargetReport& report) {
  const ScoredExams all = pooled_exams(report.models.front());
  if (all.size() == 0) return {};
  Chart chart{concat("Held-out ", rows_name(report), ": predicted '", report.target,
                     "' against the true one"),
              "true", "predicted"};
  const auto [least, most] = std::ranges::minmax(all.number);
  chart.series = {
      {.name = "predicted = true", .x = {least, most}, .y = {least, most}, .dashed = true},
      {.name = "predictions", .x = all.number, .y = all.predicted, .points = true}};
  chart.large = true;
  return line_chart(chart);
}

std::string frames_chart(const TargetReport& report) {
  const auto& frames = report.data.frames_per_exam;
  if (std::ranges::adjacent_find(frames, std::not_equal_to{}) == frames.end()) return {};
  return html::histogram("Exams by number of frames", "frames", "exams",
                         {frames.begin(), frames.end()});
}

}  // namespace coldframe::temporal

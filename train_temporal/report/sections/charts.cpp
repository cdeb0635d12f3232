#include "train_temporal/report/sections/charts.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "common/charts/html.h"
#include "common/text/text.h"
#include "train_temporal/metrics/calibration.h"
#include "train_temporal/metrics/intervals/bounds.h"
#include "train_temporal/report/report_text.h"
#include "train_temporal/report/scale_words.h"

namespace coldframe::temporal {
namespace {

using html::Chart;
using html::Series;

std::vector<double> epochs(std::size_t count) {
  std::vector<double> x(count);
  for (std::size_t i = 0; i < count; ++i) x[i] = static_cast<double>(i + 1);
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
  Series series{name, epochs(mean.mean.size()), mean.mean, {}, {}};
  if (curves.size() > 1) {
    series.low = mean.low;
    series.high = mean.high;
  }
  return series;
}

// The epoch that each fit keeps.
Series kept_epochs(const std::vector<FoldCurve>& curves) {
  Series kept{"kept epoch of each fit", {}, {}, {}, {}};
  kept.points = true;
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
  return paragraph(concat(
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
  Series series{name, {0.0}, {0.0}, {}, {}};
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

Averages average(const std::vector<std::vector<double>>& curves) {
  Averages result;
  std::size_t longest = 0;
  for (const auto& curve : curves) longest = std::max(longest, curve.size());
  for (std::size_t i = 0; i < longest; ++i) {
    double sum = 0, n = 0, least = INFINITY, most = -INFINITY;
    for (const auto& curve : curves) {
      if (i >= curve.size() || !std::isfinite(curve[i])) continue;
      sum += curve[i];
      least = std::min(least, curve[i]);
      most = std::max(most, curve[i]);
      n += 1;
    }
    result.mean.push_back(n > 0 ? sum / n : NAN);
    result.low.push_back(least);
    result.high.push_back(most);
  }
  return result;
}

ScoredExams pooled_exams(const ModelResult& model) {
  return pooled_by_repeat(model.folds).front().exams;
}

std::vector<std::size_t> pooled_patients(const ModelResult& model) {
  return pooled_by_repeat(model.folds).front().patient;
}

std::string loss_charts(const TargetReport& report) {
  if (report.curves.empty()) return {};
  Chart mean{"Loss, mean and range of " + plural(report.curves.size(), "fit"),
             "epoch",
             words_of(report.scale).loss,
             {}};
  mean.whole_x = true;
  mean.series.push_back(loss_series("training", report.curves, &FoldCurve::train_loss));
  mean.series.push_back(loss_series("validation", report.curves, &FoldCurve::validation_loss));
  mean.series.push_back(kept_epochs(report.curves));
  std::map<std::pair<std::size_t, std::size_t>, std::vector<FoldCurve>> by_fold;
  for (const FoldCurve& curve : report.curves) by_fold[{curve.repeat, curve.fold}].push_back(curve);
  const std::string said = overfitting_text(report.curves);
  if (by_fold.size() == 1) return line_chart(mean) + said;
  Chart folds{"Validation loss of each fold", "epoch", words_of(report.scale).loss, {}};
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
  std::vector<std::string> truly, decided;
  for (const std::string& name : report.classes) {
    truly.push_back(name);
    decided.push_back(name);
  }
  return html::matrix_chart(
      concat("Held-out ", rows_name(report), ": true class (row), decision (column)"), truly,
      decided, cells);
}

std::string reliability_chart(const TargetReport& report) {
  Chart chart{concat("Calibration, with ", fixed(100 * report.bootstrap.level, 0),
                     " % intervals by patient"),
              report.classes.size() == 2 ? "predicted probability of '" + report.classes[1] + "'"
                                         : "predicted probability of the decision",
              report.classes.size() == 2 ? "observed share" : "share of right decisions",
              {},
              true,
              true};
  Series line{concat("held-out ", rows_name(report)), {}, {}, {}, {}}, dots{"bins", {}, {}, {}, {}};
  dots.points = true;
  const ModelResult& model = report.models.front();
  const std::vector<std::size_t> patients = pooled_patients(model);
  for (const ReliabilityBin& bin : reliability(pooled_exams(model), kReliabilityBins, patients)) {
    if (bin.count == 0) continue;
    const Bounds bounds = share_bounds(bin.observed, bin.spread, report.bootstrap.level);
    line.x.push_back(bin.mean_probability);
    line.y.push_back(bin.observed);
    line.low.push_back(bounds.low.value);
    line.high.push_back(bounds.high.value);
  }
  dots.x = line.x;
  dots.y = line.y;
  chart.series = {line, dots};
  return line_chart(chart);
}

std::string score_chart(const TargetReport& report) {
  const ScoredExams all = pooled_exams(report.models.front());
  const bool binary = report.classes.size() == 2;
  Chart chart{"Predicted probabilities by true class",
              binary ? "probability of '" + report.classes[1] + "'"
                     : std::string("probability given to the true class"),
              concat("share of the class's ", rows_name(report)),
              {}};
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
              "true",
              "predicted",
              {}};
  const auto [least, most] = std::ranges::minmax(all.number);
  Series dots{"predictions", all.number, all.predicted, {}, {}};
  dots.points = true;
  chart.series = {{"predicted = true", {least, most}, {least, most}, {}, {}, true}, dots};
  chart.large = true;
  return line_chart(chart);
}

std::string frames_chart(const TargetReport& report) {
  if (report.data.frames_per_exam.empty()) return {};
  const auto [least, most] = std::ranges::minmax(report.data.frames_per_exam);
  constexpr std::size_t kBins = 12;
  const std::size_t width = (most - least) / kBins + 1;
  std::map<std::size_t, double> exams;
  for (std::size_t from = least; from <= most; from += width) exams[from] = 0;
  for (std::size_t frames : report.data.frames_per_exam) {
    exams[least + (frames - least) / width * width] += 1;
  }
  std::vector<html::Bar> bars;
  for (const auto& [from, count] : exams) {
    bars.push_back({width == 1 ? concat(from) : concat(from, "–", from + width - 1), count});
  }
  return html::bar_chart("Exams by number of frames", bars, "");
}

}  // namespace coldframe::temporal

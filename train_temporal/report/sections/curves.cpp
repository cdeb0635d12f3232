// ROC and precision–recall, averaged over folds, with bands from resamples of patients.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <optional>

#include "common/charts/data_table.h"
#include "common/charts/html.h"
#include "common/cli/progress.h"
#include "common/files/csv.h"
#include "common/numbers/quantile.h"
#include "common/text/table.h"
#include "common/text/text.h"
#include "train_temporal/evaluate/bounds.h"
#include "train_temporal/evaluate/calibration.h"
#include "train_temporal/evaluate/metrics.h"
#include "train_temporal/evaluate/operating_points.h"
#include "train_temporal/report/report_text.h"
#include "train_temporal/report/sections/sections.h"

namespace coldframe::temporal {

namespace {

using html::Chart;
using html::Series;

constexpr std::size_t kMaxBands = 4;  // in one drawing

std::vector<double> unit_grid() {
  std::vector<double> grid(101);
  for (std::size_t i = 0; i < grid.size(); ++i) grid[i] = static_cast<double>(i) / 100.0;
  return grid;
}

using CurveOf = Curve (*)(std::span<const double>, std::span<const int>);
using ValuesAt = std::vector<double> (*)(const Curve&, const std::vector<double>&);

struct CurveKind {
  const char* name;
  CurveOf curve_of;
  ValuesAt values_at;
};
constexpr CurveKind kRoc = {"ROC", roc_curve, roc_at};
constexpr CurveKind kPrecisionRecall = {"precision and recall", precision_recall_curve,
                                        precision_at};

// The mean runs over the folds in which the curve of one class against the rest exists; empty where
// none does.
std::vector<double> mean_values(const std::vector<ScoredExams>& folds, std::size_t of_class,
                                const CurveKind& kind) {
  std::vector<std::vector<double>> values;
  for (const ScoredExams& fold : folds) {
    const OneVsRest rest = one_vs_rest(fold, of_class);
    const Curve curve = kind.curve_of(rest.score, rest.positive);
    if (!curve.x.empty()) values.push_back(kind.values_at(curve, unit_grid()));
  }
  return values.empty() ? std::vector<double>() : average(values).mean;
}

// Percentiles over resamples of patients, point by point.
void add_band(Series& series, const TargetReport& report, std::size_t of_class,
              const CurveKind& kind, Progress& progress) {
  const BootstrapOptions& options = report.bootstrap;
  std::vector<std::vector<double>> at(series.x.size());
  for (std::size_t r = 0; r < options.resamples; ++r) {
    const auto mean =
        mean_values(resample_folds(report.models.front().folds, options.seed, r), of_class, kind);
    for (std::size_t i = 0; i < mean.size(); ++i) at[i].push_back(mean[i]);
    progress.add();
  }
  for (std::vector<double>& values : at) {
    if (values.empty()) continue;
    std::ranges::sort(values);
    series.low.push_back(quantile(values, (1 - options.level) / 2));
    series.high.push_back(quantile(values, (1 + options.level) / 2));
  }
}

Series mean_curve(const std::string& name, const ModelResult& model, std::size_t of_class,
                  const CurveKind& kind) {
  std::vector<ScoredExams> folds;
  for (const FoldScores& fold : model.folds) folds.push_back(fold.exams);
  const std::vector<double> mean = mean_values(folds, of_class, kind);
  if (mean.empty()) return {name + " (undefined)"};
  return {name, unit_grid(), mean};
}

Series banded_curve(const std::string& name, const TargetReport& report, std::size_t of_class,
                    const CurveKind& kind, Progress& progress) {
  Series series = mean_curve(name, report.models.front(), of_class, kind);
  if (!series.x.empty()) add_band(series, report, of_class, kind, progress);
  return series;
}

std::vector<Series> ranking_series(const TargetReport& report, const CurveKind& kind) {
  const ModelResult& model = report.models.front();
  const std::size_t classes = report.classes.size();
  const std::size_t bands = classes == 2 ? 1 : classes <= kMaxBands ? classes : 0;
  std::optional<Progress> progress;
  if (bands > 0)
    progress.emplace(concat("bands of ", kind.name), "resamples",
                     bands * report.bootstrap.resamples);
  std::vector<Series> series;
  if (report.classes.size() == 2) {
    const bool folds = model.folds.size() > 1;
    series.push_back(
        banded_curve(folds ? "mean over folds" : model.name, report, 1, kind, *progress));
    if (folds) {
      const OneVsRest all = one_vs_rest(pooled_exams(model), 1);
      const Curve curve = kind.curve_of(all.score, all.positive);
      series.push_back({.name = "all folds together", .x = curve.x, .y = curve.y, .dashed = true});
    }
    return series;
  }
  for (std::size_t c = 0; c < std::min(report.classes.size(), kMaxLines); ++c) {
    series.push_back(bands > 0 ? banded_curve(report.classes[c], report, c, kind, *progress)
                               : mean_curve(report.classes[c], model, c, kind));
  }
  return series;
}

std::string of_which_class(const TargetReport& report) {
  return report.classes.size() == 2 ? ", '" + report.classes[1] + "'" : ", each class vs the rest";
}

std::string band_text(const TargetReport& report) {
  if (report.classes.size() > kMaxBands) return {};
  return concat(" [", level_text(report), " by patient]");
}

std::string roc_chart(const TargetReport& report) {
  return html::line_chart({"ROC" + band_text(report), "1 − specificity" + of_which_class(report),
                           "sensitivity", ranking_series(report, kRoc), true, true});
}

std::string precision_recall_chart(const TargetReport& report) {
  Chart chart{"Precision and recall" + band_text(report), "recall" + of_which_class(report),
              "precision", ranking_series(report, kPrecisionRecall), true};
  if (report.classes.size() == 2) {
    const std::vector<int> label = pooled_exams(report.models.front()).label;
    const double share = static_cast<double>(std::ranges::count(label, 1)) /
                         static_cast<double>(std::max<std::size_t>(label.size(), 1));
    chart.series.push_back(
        {.name = "chance", .x = {0.0, 1.0}, .y = {share, share}, .dashed = true});
  }
  return html::line_chart(chart);
}

}  // namespace

std::string model_roc_chart(const TargetReport& report) {
  if (report.models.size() < 2 || !is_binary(report)) return {};
  Chart chart{
      "ROC of all models, mean over folds", "1 − specificity", "sensitivity", {}, true, true};
  if (report.models.size() > kMaxLines)
    chart.title = concat("ROC of the first ", kMaxLines, " models, mean over folds");
  for (std::size_t m = 0; m < std::min(report.models.size(), kMaxLines); ++m) {
    Series series = mean_curve(report.models[m].name, report.models[m], 1, kRoc);
    series.dashed = m > 0;
    chart.series.push_back(std::move(series));
  }
  return line_chart(chart);
}

std::span<const Section> curve_sections() {
  static constexpr Section kSections[] = {
      {.heading = "ROC and precision–recall",
       .applies = [](const TargetReport& report) { return report.scale == Scale::kNominal; },
       .body = [](const TargetReport& report) -> html::Body {
         return roc_chart(report) + precision_recall_chart(report);
       },
       .drawings = {{{"roc", roc_chart}, {"precision_recall", precision_recall_chart}}}}};
  return kSections;
}

// The training: how far a cohort lies from its exams, what --search took, and losses.

namespace {

html::Body shift_section(const TargetReport& report) {
  html::Rows rows;
  for (const CohortShift& shift : report.shift) {
    rows.push_back({shift.trait, concat(shift.flagged, " of ", shift.judged),
                    shift.judged > 0 ? fixed(shift.median_rank, 3) : std::string("–")});
  }
  return html::table({"", "unlike the training data", "median rank"}, rows) +
         html::paragraph(concat(
             "Each exam is ranked by its distance from the training's among the exams "
             "that the training held out: of a cohort like it ",
             fixed(100 * report.shift_rate, 0), " % are unlike, and the median rank is 0.5."));
}

void add_shift(Json& summary, const TargetReport& report) {
  Json& json = summary["shift"] = {{"rate", report.shift_rate}};
  for (const CohortShift& shift : report.shift) {
    Json& entry = json[shift.trait] = {{"exams", shift.judged}, {"flagged", shift.flagged}};
    if (shift.judged > 0) entry["median_rank"] = shift.median_rank;
  }
}

bool searched(const TargetReport& report) {
  return !report.choices.empty() && !report.choices.front().setting.is_null();
}

html::Body search_section(const TargetReport& report) {
  std::vector<std::string> header = {"repeat", "fold"};
  for (const auto& [option, value] : report.choices.front().setting.items())
    header.push_back(option);
  html::Rows rows;
  for (const FoldChoice& choice : report.choices) {
    std::vector<std::string>& row = rows.emplace_back();
    row = {concat(choice.repeat), concat(choice.fold)};
    for (const auto& [option, value] : choice.setting.items())
      row.push_back(value.is_string() ? value.get<std::string>() : value.dump());
  }
  return html::paragraph(
             "Each fold took, by its validation part alone, this one of the settings that were "
             "tried (search.csv has all):") +
         html::table(header, rows);
}

html::Series loss_series(const std::string& name, const std::vector<FoldCurve>& curves,
                         std::vector<double> FoldCurve::*loss) {
  std::vector<std::vector<double>> values;
  for (const FoldCurve& curve : curves) values.push_back(curve.*loss);
  // Fits stop at different epochs: after the median one, the mean would represent a few odd fits.
  std::vector<std::size_t> lengths;
  for (const auto& one : values) lengths.push_back(one.size());
  std::ranges::sort(lengths);
  for (auto& one : values) one.resize(std::min(one.size(), lengths[lengths.size() / 2]));
  const Averages mean = average(values);
  html::Series series{name, mean.mean, mean.mean};
  std::iota(series.x.begin(), series.x.end(), 1);  // epochs
  if (curves.size() > 1) {
    series.low = mean.low;
    series.high = mean.high;
  }
  return series;
}

// The epoch that each fit keeps.
html::Series kept_epochs(const std::vector<FoldCurve>& curves) {
  html::Series kept{.name = "kept epoch of each fit", .points = true};
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

html::Body loss_charts(const TargetReport& report) {
  if (report.curves.empty()) return {};
  const char* loss = words_of(report.scale).loss;
  const html::Chart mean{
      .title = "Loss, mean and range of " + plural(report.curves.size(), "fit"),
      .x_label = "epoch",
      .y_label = loss,
      .series = {loss_series("training", report.curves, &FoldCurve::train_loss),
                 loss_series("validation", report.curves, &FoldCurve::validation_loss),
                 kept_epochs(report.curves)},
      .whole_x = true};
  std::map<std::pair<std::size_t, std::size_t>, std::vector<FoldCurve>> by_fold;
  for (const FoldCurve& curve : report.curves) by_fold[{curve.repeat, curve.fold}].push_back(curve);
  const std::string said = overfitting_text(report.curves);
  if (by_fold.size() == 1) return html::line_chart(mean) + said;
  html::Chart folds{"Validation loss of each fold", "epoch", loss};
  folds.whole_x = true;
  for (const auto& [key, curves] : by_fold) {
    if (folds.series.size() == kMaxLines) {
      folds.title = concat("Validation loss of the first ", kMaxLines, " folds");
      break;
    }
    const bool repeated = by_fold.rbegin()->first.first > 0;
    const std::string name =
        repeated ? concat("repeat ", key.first, " fold ", key.second) : concat("fold ", key.second);
    html::Series series = loss_series(name, curves, &FoldCurve::validation_loss);
    series.low.clear();
    series.high.clear();
    folds.series.push_back(std::move(series));
  }
  return html::line_chart(mean) + html::line_chart(folds) + said;
}

}  // namespace

std::span<const Section> training_sections() {
  static constexpr Section kSections[] = {
      {.heading = "Shift against the training cohort",
       .applies = [](const TargetReport& report) { return !report.shift.empty(); },
       .body = shift_section,
       .json = add_shift},
      {.heading = "Search",
       .applies = searched,
       .body = search_section,
       .text =
           [](const TargetReport& report) {
             std::vector<Json> settings;
             for (const FoldChoice& choice : report.choices) settings.push_back(choice.setting);
             return concat("Search took ", search_text(settings), ".\n");
           }},
      {.heading = "Training", .body = loss_charts}};
  return kSections;
}

// Figures that a clinic or a reviewer asks for: calibration, figures at given thresholds, decision
// curves.

namespace {

std::string reliability_chart(const TargetReport& report) {
  html::Chart chart{
      concat("Calibration, with ", level_text(report), " intervals by patient"),
      report.classes.size() == 2 ? "predicted probability of '" + report.classes[1] + "'"
                                 : "predicted probability of the decision",
      report.classes.size() == 2 ? "observed share" : "fraction of correct decisions"};
  chart.unit_square = chart.diagonal = true;
  html::Series line{concat("held-out ", rows_name(report))};
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
  return html::line_chart(chart);
}

// A point that only a threshold above all scores reaches has none.
std::string threshold_text(double threshold) {
  return std::isinf(threshold) ? "none reaches it" : fixed(threshold, 3);
}

html::Body points_section(const TargetReport& report) {
  if (report.operating_points.empty()) return {};
  html::Rows rows;
  for (const OperatingFigure& figure : report.operating_points)
    rows.push_back({figure.title, interval_text(figure.estimate),
                    figure.threshold ? threshold_text(*figure.threshold) : "–"});
  return figures_table({"", concat("of ", report.models.front().name), "threshold"}, rows) +
         html::paragraph(
             "Figures are of all folds together. Predictive values are those of sensitivity and "
             "specificity at the model's threshold where the fraction of ill is as stated. A "
             "sensitivity at a given specificity, or the other way round, is the highest that the "
             "ROC curve of the held-out exams has there: its threshold was chosen on these exams, "
             "and on others both will be somewhat lower.");
}

std::string decision_chart(const TargetReport& report) {
  DecisionCurve curve = decision_curve(pooled_exams(report.models.front()));
  // The cost of treating all at high thresholds would leave no room for the rest.
  constexpr double kLowest = -0.05;
  for (auto* values : {&curve.model, &curve.all})
    for (double& value : *values)
      if (value < kLowest) value = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> none(curve.threshold.size(), 0);
  return html::line_chart(
      {"Net benefit of treating by the model",
       "probability from which one would treat",
       "net benefit",
       {{report.models.front().name, curve.threshold, curve.model},
        {.name = "treat all", .x = curve.threshold, .y = curve.all, .dashed = true},
        {.name = "treat none", .x = curve.threshold, .y = none, .dashed = true}}});
}

html::Body decision_section(const TargetReport& report) {
  return decision_chart(report) +
         html::paragraph(
             concat("Net benefit is in true positives per exam of this cohort, each false positive "
                    "counted at the odds of the threshold (Vickers and Elkin 2006): a model is of "
                    "use at thresholds where it lies above both others. Exams of all folds "
                    "together; it asks for calibrated probabilities, and for a share of '",
                    report.classes[1], "' as in practice."));
}

std::string decision_csv(const TargetReport& report) {
  const DecisionCurve curve = decision_curve(pooled_exams(report.models.front()));
  std::string csv = csv_row({"threshold", report.models.front().name, "treat_all"});
  for (std::size_t i = 0; i < curve.threshold.size(); ++i)
    csv += csv_row({exact(curve.threshold[i]), exact(curve.model[i]), exact(curve.all[i])});
  return csv;
}

void evaluate_operating_points(TargetReport& report) {
  const ModelResult& main = report.models.front();
  const Questions& asked = report.questions;
  auto& figures = report.operating_points;
  if (asked.prevalence) {
    const auto [ppv, npv] = predictive_values(
        find_metric(main.summary, metric_named("sensitivity"))->pooled,
        find_metric(main.summary, metric_named("specificity"))->pooled, *asked.prevalence);
    const std::string at = concat(" at a prevalence of ", exact(*asked.prevalence));
    figures.push_back({"ppv", "PPV" + at, ppv});
    figures.push_back({"npv", "NPV" + at, npv});
  }
  const auto add = [&](const std::optional<double>& at, const std::string& key,
                       const std::string& other, PointOf point_of) {
    if (!at) return;
    const auto [share, threshold] = operating_point(main.folds, point_of, *at, report.bootstrap);
    figures.push_back({lower(key), concat(key, " at ", other, " ", exact(*at)), share, threshold});
    figures.back().key += "_at_" + other;
  };
  add(asked.at_specificity, "Sensitivity", "specificity", sensitivity_at);
  add(asked.at_sensitivity, "Specificity", "sensitivity", specificity_at);
}

void add_operating_points(Json& summary, const TargetReport& report) {
  if (report.operating_points.empty()) return;
  Json& json = summary["operating_points"];
  for (const OperatingFigure& figure : report.operating_points) {
    json[figure.key] = to_json(figure.estimate);
    if (!figure.threshold) continue;
    json[figure.key]["threshold"] = json_number(*figure.threshold);
    if (std::isinf(*figure.threshold))
      json[figure.key]["no_threshold"] = "an exam without '" + report.classes[1] + "' ranks first";
  }
}

std::string operating_text(const TargetReport& report) {
  std::string text;
  for (const OperatingFigure& figure : report.operating_points) {
    text += concat("  ", padded(figure.title, 34), " ", interval_text(figure.estimate));
    if (figure.threshold)
      text += std::isinf(*figure.threshold)
                  ? "   no threshold reaches it"
                  : concat("   from ", fixed(*figure.threshold, 3), " on");
    text += "\n";
  }
  return text;
}

void add_operating_figures(FigureTable& table, const TargetReport& report) {
  for (const OperatingFigure& one : report.operating_points) {
    const FigureTable::Of of = {report.models.front().name, "", "", one.title};
    table.add(of, one.key, one.estimate);
    if (one.threshold && std::isfinite(*one.threshold)) table.add(of, "threshold", *one.threshold);
  }
}

}  // namespace

std::span<const Section> operating_sections() {
  static constexpr Section kSections[] = {
      {.heading = "Calibration",
       .applies = has_classes,
       .body = [](const TargetReport& report) -> html::Body { return reliability_chart(report); },
       .drawings = {{{"calibration", reliability_chart}}}},
      {.heading = "Operating points",
       .applies = is_binary,
       .body = points_section,
       .evaluate = evaluate_operating_points,
       .json = add_operating_points,
       .text = operating_text,
       .figures = add_operating_figures},
      {.heading = "Decision curve",
       .applies = is_binary,
       .body = decision_section,
       .drawings = {{{"decision_curve", decision_chart}}},
       .tables = {{{"decision_curve", decision_csv}}}}};
  return kSections;
}

// Decisions on classes, and the probabilities that lead to them.

namespace {

// A histogram's outline: share of `values` (within [0, 1]) per bin.
html::Series outline(const std::string& name, const std::vector<double>& values, std::size_t bins) {
  std::vector<double> share(bins, 0);
  for (double value : values) {
    const double bin = std::clamp(std::floor(value * static_cast<double>(bins)), 0.0,
                                  static_cast<double>(bins - 1));
    share[static_cast<std::size_t>(bin)] += 1.0 / static_cast<double>(values.size());
  }
  html::Series series{name, {0.0}, {0.0}};
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

std::string confusion_chart(const TargetReport& report) {
  std::vector<std::vector<double>> cells;
  for (const auto& row : confusion_matrix(pooled_exams(report.models.front()))) {
    cells.emplace_back(row.begin(), row.end());
  }
  return html::matrix_chart(
      concat("Held-out ", rows_name(report), ": true class (row), decision (column)"),
      report.classes, report.classes, cells);
}

std::string score_chart(const TargetReport& report) {
  const ScoredExams all = pooled_exams(report.models.front());
  const bool binary = report.classes.size() == 2;
  html::Chart chart{"Predicted probabilities by true class",
                    binary ? "probability of '" + report.classes[1] + "'"
                           : std::string("probability given to the true class"),
                    concat("share of the class's ", rows_name(report))};
  for (std::size_t c = 0; c < std::min(report.classes.size(), kMaxLines); ++c) {
    std::vector<double> scores;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const double score = all.score(i, binary ? 1 : c);
      if (all.label[i] == static_cast<int>(c) && std::isfinite(score)) scores.push_back(score);
    }
    if (!scores.empty())
      chart.series.push_back(outline(report.classes[c], scores, binary ? 20 : 10));
  }
  return html::line_chart(chart);
}

html::Body decisions_section(const TargetReport& report) {
  return confusion_chart(report) + score_chart(report);
}

}  // namespace

std::span<const Section> decision_sections() {
  static constexpr Section kSections[] = {
      {.heading = "Decisions",
       .applies = has_classes,
       .body = decisions_section,
       .drawings = {{{"confusion", confusion_chart}, {"scores", score_chart}}}}};
  return kSections;
}

// Sensitivity, specificity and predictive values at any threshold.

namespace {

std::vector<std::string> row_at(double threshold, const std::vector<double>& scores,
                                const std::vector<int>& labels) {
  double at[2][2] = {};  // [truth][decision]
  for (std::size_t i = 0; i < scores.size(); ++i) at[labels[i]][scores[i] >= threshold] += 1;
  const auto [tn, fp] = at[0];
  const auto [fn, tp] = at[1];
  return {fixed(threshold, 2),
          ratio_text(tp, tp + fn),
          ratio_text(tn, tn + fp),
          ratio_text(tp, tp + fp),
          ratio_text(tn, tn + fn),
          fixed(tp, 0),
          fixed(fp, 0),
          fixed(tn, 0),
          fixed(fn, 0)};
}

struct Beginning {
  double threshold = 0.5;
  const char* origin = "";
};

// Where the page begins: at the threshold of the report's decisions.
Beginning beginning_of(const TargetReport& report) {
  if (report.questions.threshold) return {*report.questions.threshold, ", the one that was given"};
  if (report.applied_threshold)
    return {*report.applied_threshold, ", the mean of those of the models"};
  if (report.choices.empty()) return {};
  double sum = 0;
  for (const FoldChoice& choice : report.choices) sum += choice.threshold;
  return {sum / static_cast<double>(report.choices.size()),
          ", the mean of those that the folds chose on their validation parts"};
}

html::Body threshold_section(const TargetReport& report) {
  const ScoredExams all = pooled_exams(report.models.front());
  const Beginning beginning = beginning_of(report);
  std::vector<double> scores;
  std::vector<int> labels;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!std::isfinite(all.score(i, 1))) continue;
    scores.push_back(all.score(i, 1));
    labels.push_back(all.label[i]);
  }
  html::Rows rows;
  for (int tenth = 1; tenth < 10; ++tenth) rows.push_back(row_at(tenth / 10.0, scores, labels));
  html::Body table =
      html::table({"threshold", "sensitivity", "specificity", "PPV", "NPV", "true positive",
                   "false positive", "true negative", "false negative"},
                  rows);
  const Json data = {{"scores", html::packed<float>(scores)},
                     {"positive", html::packed<std::uint8_t>(labels)},
                     {"threshold", std::round(1000 * beginning.threshold) / 1000},
                     {"classes", report.classes}};
  return html::paragraph(concat(
             report.applied_threshold ? "The " : "Held-out ", rows_name(report),
             report.applied_threshold ? "" : " of all folds",
             " at one threshold for all. It begins at ", fixed(beginning.threshold, 3),
             beginning.origin,
             ". A threshold that is chosen here is chosen on the exams that it is judged by, and "
             "does somewhat worse on others.")) +
         html::with_data("threshold", "", std::move(table), data);
}

}  // namespace

std::span<const Section> threshold_sections() {
  static constexpr Section kSections[] = {{.heading = "Decisions at other thresholds",
                                           .applies = is_binary,
                                           .body = threshold_section}};
  return kSections;
}

}  // namespace coldframe::temporal

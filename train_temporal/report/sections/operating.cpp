// Figures that a clinic or a reviewer asks for: calibration, figures at given thresholds, decision
// curves.
#include <cmath>
#include <limits>

#include "common/charts/html.h"
#include "common/files/csv.h"
#include "common/text/table.h"
#include "common/text/text.h"
#include "train_temporal/metrics/bounds.h"
#include "train_temporal/metrics/calibration.h"
#include "train_temporal/metrics/operating_points.h"
#include "train_temporal/report/report_text.h"
#include "train_temporal/report/sections/sections.h"

namespace coldframe::temporal {
namespace {

std::string reliability_chart(const TargetReport& report) {
  html::Chart chart{concat("Calibration, with ", level_text(report), " intervals by patient"),
                    report.classes.size() == 2
                        ? "predicted probability of '" + report.classes[1] + "'"
                        : "predicted probability of the decision",
                    report.classes.size() == 2 ? "observed share" : "share of right decisions"};
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
             "specificity at the model's threshold where the share of ill is as stated. A "
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

}  // namespace coldframe::temporal

// The verdict with the main model's figures, what to be wary of, and the models beside each other.
#include <cmath>

#include "common/charts/html.h"
#include "common/text/text.h"
#include "train_temporal/report/report_text.h"
#include "train_temporal/report/scale_words.h"
#include "train_temporal/report/sections/sections.h"

namespace coldframe::temporal {
namespace {

html::Body result_section(const TargetReport& report) {
  const ModelResult& main = report.models.front();
  html::Body body;
  for (const std::string& line : verdict(report)) body += html::paragraph(line);
  const bool one_part = main.folds.size() == 1;
  const std::string level = level_text(report);
  std::vector<std::string> header = {"", concat(folds_text(main), " [", level, " interval]")};
  if (!one_part) {
    header.push_back("SD over folds");
    header.push_back(concat("all folds together [", level, " interval]"));
  }
  html::Rows rows;
  for (const MetricSummary& summary : main.summary) {
    std::vector<std::string> row = {
        std::string(summary.metric->title),
        one_part || summary.by_fold ? interval_text(summary.primary()) : std::string("–")};
    if (!one_part) {
      const bool spread = summary.by_fold && !std::isnan(summary.sd_over_folds);
      row.push_back(spread ? fixed(summary.sd_over_folds, 3) : "–");
      row.push_back(interval_text(summary.pooled));
    }
    rows.push_back(std::move(row));
  }
  body += figures_table(header, rows) + families_table(main);
  body += html::paragraph(concat(
      "Intervals are score intervals by the spread that leaving out each patient in turn shows. ",
      one_part ? "" : words_of(report.scale).about_ranks,
      words_of(report.scale).about_figures(report)));
  return body;
}

html::Body models_section(const TargetReport& report) {
  const std::vector<Metric> metrics = compared_metrics(report.scale);
  std::vector<std::string> header = {"model"};
  for (Metric metric : metrics) header.emplace_back(metric->title);
  header.push_back(concat(metrics.front()->title, " of ", report.models.front().name, " − this"));
  html::Rows rows;
  for (const ModelResult& model : report.models) {
    std::vector<std::string> row = {model_label(model) + model.about};
    for (Metric metric : metrics) {
      const MetricSummary* summary = find_metric(model.summary, metric);
      row.push_back(summary ? interval_text(summary->primary()) : "–");
    }
    const PairedDifference* ahead = find_metric(model.difference, metrics.front());
    row.push_back(ahead ? difference_text(ahead->primary()) : "–");
    rows.push_back(std::move(row));
  }
  html::Body of_controls;
  for (std::size_t m = 1; m < report.models.size(); ++m)
    of_controls += families_table(report.models[m]);
  return figures_table(header, rows) +
         html::paragraph(concat(
             "Differences are paired: both models on the same patients, each left out of both in "
             "turn. An interval that excludes 0 is a difference that chance among patients does "
             "not explain",
             report.against.empty() ? ", nor, with three seeds or repeats, chance among fits."
                                    : ".")) +
         of_controls + model_roc_chart(report);
}

void add_model_figures(FigureTable& table, const TargetReport& report) {
  const std::string& main = report.models.front().name;
  for (const ModelResult& model : report.models) {
    table.add({model.name, "", "", "figure"}, model.summary);
    for (const PairedDifference& one : model.difference)
      table.add({model.name, "", "", main + " minus this"}, std::string(one.metric->key),
                one.primary());
  }
}

}  // namespace

std::span<const Section> result_sections() {
  static constexpr Section kSections[] = {
      {.heading = "Result", .body = result_section, .figures = add_model_figures},
      {.heading = "Warnings",
       .applies = [](const TargetReport& report) { return !all_warnings(report).empty(); },
       .body = [](const TargetReport& report) -> html::Body {
         return html::list(all_warnings(report));
       }},
      {.heading = "Models and controls",
       .applies = [](const TargetReport& report) { return report.models.size() > 1; },
       .body = models_section,
       .drawings = {{{"roc_of_models", model_roc_chart}}}}};
  return kSections;
}

}  // namespace coldframe::temporal

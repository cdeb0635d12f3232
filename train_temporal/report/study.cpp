#include "train_temporal/report/study.h"

#include "common/cli/progress.h"
#include "common/text/text.h"
#include "train_temporal/report/report_text.h"
#include "train_temporal/report/sections/charts.h"
#include "train_temporal/report/sections/sections.h"

namespace coldframe::temporal {
namespace {

std::string macro_heading(const StudyReport& study) {
  std::size_t binary = 0;
  for (const RunReport& report : study.targets) binary += is_binary(report);
  return concat("Mean over the ", binary, " binary targets");
}

std::string macro_section(const StudyReport& study) {
  std::vector<std::vector<std::string>> rows;
  for (const ModelResult& model : study.macro) {
    for (const MetricSummary& summary : model.summary) {
      rows.push_back({model.name, concat("macro ", metric_title(summary.metric)),
                      interval_text(summary.mean_over_folds), interval_text(summary.pooled)});
    }
  }
  return html::table({"model", "", folds_text(study.targets.front().models.front()), "pooled"},
                     rows);
}

}  // namespace

void evaluate_study(StudyReport& study) {
  std::size_t models = 0;
  for (const RunReport& report : study.targets) models += report.models.size();
  Progress progress("figures with intervals", "models", models);
  std::vector<std::vector<MetricTable>> binary;  // [target][model]
  for (RunReport& report : study.targets) {
    std::vector<MetricTable> tables =
        evaluate_models(report.models, report.bootstrap.level, [&] { progress.add(); });
    evaluate_operating_points(report);
    evaluate_survival(report);
    evaluate_subgroups(report);
    if (study.targets.size() > 1 && is_binary(report)) binary.push_back(std::move(tables));
  }
  if (binary.size() < 2) return;
  for (std::size_t m = 0; m < binary.front().size(); ++m) {
    std::vector<MetricTable> of_targets;
    for (const auto& tables : binary) of_targets.push_back(tables[m]);
    ModelResult& model = study.macro.emplace_back();
    model.name = study.targets.front().models[m].name;
    model.summary = summarize(macro_table(of_targets));
  }
}

std::string render_report(const StudyReport& study) {
  const RunReport& first = study.targets.front();
  html::Page page(first.title, first.subtitle);
  const auto of = [&](const RunReport& report) {
    return study.targets.size() > 1 ? concat(" of '", report.target, "'") : std::string();
  };
  if (!study.macro.empty()) page.section(macro_heading(study), macro_section(study));
  for (const RunReport& report : study.targets) {
    add_result(page, report, of(report));
    add_operating_points(page, report, of(report));
    add_subgroups(page, report, of(report));
  }
  if (!first.examples.exams.empty()) {
    page.section("Contributions over time of example exams", contributions_charts(first));
  }
  add_shift(page, first);
  if (!first.curves.empty()) page.section("Training", loss_charts(first));
  for (const RunReport& report : study.targets) {
    add_data(page, report, of(report));
    add_cohort(page, report, of(report));
  }
  add_covariates(page, first);
  add_run(page, first);
  return page.finish();
}

Json metrics_json(const StudyReport& study) {
  if (study.targets.size() == 1) return metrics_json(study.targets.front());
  Json json = {{"targets", Json::array()}};
  for (const RunReport& report : study.targets) json["targets"].push_back(metrics_json(report));
  if (study.macro.empty()) return json;
  json["macro"] = Json::array();
  for (const ModelResult& model : study.macro) json["macro"].push_back(to_json(model));
  return json;
}

std::string summary_text(const StudyReport& study) {
  std::string text;
  for (const RunReport& report : study.targets) text += summary_text(report);
  if (study.macro.empty()) return text;
  text += macro_heading(study) + "\n";
  for (const ModelResult& model : study.macro) {
    for (const MetricSummary& summary : model.summary) {
      text += concat("  ", model.name, " macro ", metric_title(summary.metric), " ",
                     interval_text(summary.mean_over_folds), "\n");
    }
  }
  return text;
}

}  // namespace coldframe::temporal

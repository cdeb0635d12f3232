#include "train_temporal/report/run_report.h"

#include <algorithm>

#include "common/cli/progress.h"
#include "common/text/text.h"
#include "train_temporal/report/report_text.h"
#include "train_temporal/report/sections/sections.h"

namespace coldframe::temporal {
namespace {

std::string macro_heading(const RunReport& run) {
  std::size_t binary = 0;
  for (const TargetReport& report : run.targets) binary += is_binary(report);
  return concat("Mean over the ", binary, " binary targets");
}

html::Body macro_section(const RunReport& run) {
  html::Rows rows;
  for (const ModelResult& model : run.macro) {
    for (const MetricSummary& summary : model.summary) {
      rows.push_back({model.name, concat("macro ", summary.metric->title),
                      interval_text(summary.mean_over_folds), interval_text(summary.pooled)});
    }
  }
  return html::table({"model", "", folds_text(run.targets.front().models.front()), "pooled"}, rows);
}

void add_sections(html::Page& page, const SectionBlock& block, const TargetReport& report,
                  const std::string& of) {
  block.visit([&](const Section& section) {
    if (!section.is_of(report)) return;
    if (section.page != nullptr) section.page(page, report, of);
    if (section.body == nullptr) return;
    if (html::Body body = section.body(report); !body.empty())
      page.section(concat(section.heading, of), std::move(body));
  });
}

}  // namespace

void evaluate_report(RunReport& run) {
  std::size_t models = 0;
  for (const TargetReport& report : run.targets) models += report.models.size();
  Progress progress("figures with intervals", "models", models);
  std::vector<std::vector<MetricTable>> binary;  // [target][model]
  for (TargetReport& report : run.targets) {
    if (const auto level = report.questions.level)
      report.bootstrap.level = static_cast<double>(*level) / 100;
    std::vector<MetricTable> tables =
        evaluate_models(report.models, report.bootstrap.level, [&] { progress.add(); });
    for_sections(report, [&](const Section& section) {
      if (section.evaluate != nullptr) section.evaluate(report);
    });
    know_that_groups_differ(report);
    if (run.targets.size() > 1 && is_binary(report)) binary.push_back(std::move(tables));
  }
  if (binary.size() < 2) return;
  for (std::size_t m = 0; m < binary.front().size(); ++m) {
    std::vector<MetricTable> of_targets;
    for (const auto& tables : binary) of_targets.push_back(tables[m]);
    ModelResult& model = run.macro.emplace_back();
    model.name = run.targets.front().models[m].name;
    model.summary = summarize(macro_table(of_targets));
  }
}

html::Page report_page(const RunReport& run) {
  const TargetReport& first = run.targets.front();
  html::Page page(first.title, first.subtitle);
  const auto of = [&](const TargetReport& report) {
    return run.targets.size() > 1 ? concat(" of '", report.target, "'") : std::string();
  };
  if (!run.macro.empty()) page.section(macro_heading(run), macro_section(run));
  for (const SectionBlock& block : kSectionBlocks) {
    for (const TargetReport& report : run.targets) {
      if (block.of_each_target)
        add_sections(page, block, report, of(report));
      else if (&report == &first)
        add_sections(page, block, report, "");
    }
  }
  return page;
}

Json metrics_json(const RunReport& run) {
  if (run.targets.size() == 1) return metrics_json(run.targets.front());
  Json json = {{"targets", Json::array()}};
  for (const TargetReport& report : run.targets) json["targets"].push_back(metrics_json(report));
  if (run.macro.empty()) return json;
  json["macro"] = Json::array();
  for (const ModelResult& model : run.macro) json["macro"].push_back(to_json(model));
  return json;
}

std::string summary_text(const RunReport& run) {
  std::string text;
  for (const TargetReport& report : run.targets) text += summary_text(report);
  if (run.macro.empty()) return text;
  text += macro_heading(run) + "\n";
  for (const ModelResult& model : run.macro) {
    for (const MetricSummary& summary : model.summary) {
      text += concat("  ", model.name, " macro ", summary.metric->title, " ",
                     interval_text(summary.mean_over_folds), "\n");
    }
  }
  return text;
}

}  // namespace coldframe::temporal

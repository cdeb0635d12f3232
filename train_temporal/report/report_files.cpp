#include "train_temporal/report/report_files.h"

#include <cmath>
#include <set>

#include "common/charts/svg_file.h"
#include "common/files/csv.h"
#include "common/text/text.h"
#include "train_temporal/metrics/clinical/operating_points.h"
#include "train_temporal/report/report_text.h"
#include "train_temporal/report/sections/charts.h"

namespace coldframe::temporal {
namespace {

using Files = std::vector<std::pair<std::string, std::string>>;

void add_drawings(Files& files, const std::string& name, const std::string& page) {
  const std::vector<std::string> drawings = html::svg_files(page);
  for (std::size_t i = 0; i < drawings.size(); ++i)
    files.emplace_back(i == 0 ? name + ".svg" : concat(name, "-", i + 1, ".svg"), drawings[i]);
}

Files drawings_of(const RunReport& report) {
  Files files;
  if (report.data.flow.found > 0) add_drawings(files, "flow", flow_chart(report));
  if (report.scale == Scale::kTime) {
    add_drawings(files, "survival", survival_chart(report));
    add_drawings(files, "calibration", survival_calibration_chart(report));
    return files;
  }
  if (report.scale == Scale::kNumber) {
    add_drawings(files, "predictions", scatter_chart(report));
    return files;
  }
  if (report.scale == Scale::kNominal) {
    add_drawings(files, "roc", roc_chart(report));
    add_drawings(files, "precision_recall", precision_recall_chart(report));
    if (report.models.size() > 1) add_drawings(files, "roc_of_models", model_roc_chart(report));
  }
  add_drawings(files, "confusion", confusion_chart(report));
  add_drawings(files, "scores", score_chart(report));
  add_drawings(files, "calibration", reliability_chart(report));
  if (is_binary(report)) add_drawings(files, "decision_curve", decision_chart(report));
  return files;
}

Estimate alone(const MetricValue& figure) {
  return {figure, MetricValue::none(""), MetricValue::none("")};
}

// One figure a row, so that programs and papers take what they need.
class FigureTable {
 public:
  void add(const std::vector<std::string>& of, const std::string& figure,
           const Estimate& estimate) {
    std::vector<std::string> row = of;
    row.push_back(figure);
    for (const MetricValue* each : {&estimate.value, &estimate.low, &estimate.high})
      row.push_back(each->defined() ? exact(each->value) : "");
    row.push_back(estimate.value.defined() ? estimate.low.undefined : estimate.value.undefined);
    csv_ += csv_row(row);
  }
  void add(const std::vector<std::string>& of, const std::vector<MetricSummary>& summaries) {
    for (const MetricSummary& one : summaries)
      add(of, std::string(metric_key(one.metric)), one.primary());
  }
  void add(const std::vector<std::string>& of, const ShareAt& share) {
    const auto known = [](double x, bool is) {
      return is ? MetricValue::of(x) : MetricValue::none("");
    };
    const bool bounded = share.has_interval();
    add(of, "survival",
        {known(share.value, !std::isnan(share.value)), known(share.low, bounded),
         known(share.high, bounded)});
  }
  void add(const std::vector<std::string>& of, const DeLong& delong) {
    add(of, "auroc", delong.estimate);
    add(of, "standard_error", alone(delong.error));
    if (delong.p.defined()) add(of, "p", alone(delong.p));
  }
  const std::string& csv() const { return csv_; }

 private:
  std::string csv_ =
      csv_row({"model", "column", "group", "what", "figure", "value", "low", "high", "note"});
};

std::string figures_csv(const RunReport& report) {
  FigureTable table;
  const std::string main = report.models.front().name;
  for (const ModelResult& model : report.models) {
    table.add({model.name, "", "", "figure"}, model.summary);
    for (const PairedDifference& one : model.difference)
      table.add({model.name, "", "", main + " minus this"}, std::string(metric_key(one.metric)),
                one.primary());
    if (model.delong) table.add({model.name, "", "", "DeLong"}, *model.delong);
    if (model.delong_difference)
      table.add({model.name, "", "", concat("DeLong, ", main, " minus this")},
                *model.delong_difference);
  }
  for (const HorizonFigures& at : report.survival.horizons) {
    const std::string where = concat("at ", exact(at.horizon));
    table.add({main, "", "", where}, "auroc", at.auroc.primary());
    table.add({main, "", "", where}, "brier", at.brier.primary());
    for (const RiskGroup& group : report.survival.groups)
      table.add({main, "", group.name, where}, group.curve.share_at(at.horizon));
    for (const SurvivalGroup& group : at.groups)
      table.add({main, "", concat("predicted ", exact(group.predicted)), where}, group.observed);
  }
  if (const LogRank& test = report.survival.test; test.freedom > 0)
    table.add({main, "", "", "log-rank test of thirds by risk"}, "p",
              alone(MetricValue::of(test.p)));
  for (const OperatingFigure& one : report.operating_points) {
    table.add({main, "", "", one.title}, one.key, one.estimate);
    if (one.threshold && std::isfinite(*one.threshold))
      table.add({main, "", "", one.title}, "threshold", alone(MetricValue::of(*one.threshold)));
  }
  for (const SubgroupColumn& column : report.subgroups) {
    for (const Subgroup& group : column.groups) {
      table.add({main, column.column, group.value, "figure"}, group.summary);
      for (std::size_t m = 0; m < group.minus_others.size(); ++m)
        table.add({main, column.column, group.value, "minus the others"},
                  std::string(metric_key(group.summary[m].metric)), group.minus_others[m]);
    }
  }
  return table.csv();
}

std::string characteristics_csv(const RunReport& report) {
  std::vector<std::string> header = {"column", "row"};
  const std::vector<std::string> columns = characteristic_columns(report);
  header.insert(header.end(), columns.begin(), columns.end());
  std::string csv = csv_row(header);
  for (const Characteristic& one : report.characteristics) {
    std::vector<std::string> row = {one.column, one.row};
    row.insert(row.end(), one.cells.begin(), one.cells.end());
    csv += csv_row(row);
  }
  return csv;
}

std::string decision_csv(const RunReport& report) {
  const DecisionCurve curve = decision_curve(pooled_exams(report.models.front()));
  std::string csv = csv_row({"threshold", report.models.front().name, "treat_all"});
  for (std::size_t i = 0; i < curve.threshold.size(); ++i)
    csv += csv_row({exact(curve.threshold[i]), exact(curve.model[i]), exact(curve.all[i])});
  return csv;
}

std::string flow_csv(const ExamFlow& flow) {
  std::string csv = csv_row({"step", "exams"});
  for (const auto& [step, count] : steps_of(flow)) csv += csv_row({step, concat(count)});
  return csv;
}

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == text.npos;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> report_files(const StudyReport& study) {
  Files files;
  for (std::size_t t = 0; t < study.targets.size(); ++t) {
    const RunReport& report = study.targets[t];
    Files own = drawings_of(report);
    own.emplace_back("figures.csv", figures_csv(report));
    if (is_binary(report)) own.emplace_back("decision_curve.csv", decision_csv(report));
    if (!report.characteristics.empty())
      own.emplace_back("characteristics.csv", characteristics_csv(report));
    if (report.data.flow.found > 0) own.emplace_back("flow.csv", flow_csv(report.data.flow));
    for (auto& [name, content] : own)
      files.emplace_back(study.targets.size() > 1 ? concat(t + 1, "-", name) : name,
                         std::move(content));
  }
  return files;
}

bool is_report_file(const std::string& name) {
  static const std::set<std::string> drawings{
      "flow",          "predictions", "survival", "roc",         "precision_recall",
      "roc_of_models", "confusion",   "scores",   "calibration", "decision_curve"};
  static const std::set<std::string> tables{"figures", "characteristics", "flow", "decision_curve"};
  const auto dot = name.rfind('.');
  if (dot == name.npos || name == kLatexFile) return name == kLatexFile;
  const std::string ending = name.substr(dot);
  std::string stem = name.substr(0, dot);
  if (const auto dash = stem.find('-'); dash != stem.npos && is_number(stem.substr(0, dash)))
    stem.erase(0, dash + 1);  // of the target
  if (ending == ".csv") return tables.contains(stem);
  if (const auto dash = stem.rfind('-'); dash != stem.npos && is_number(stem.substr(dash + 1)))
    stem.erase(dash);  // of a drawing that a page has several times
  return (ending == ".svg" || ending == ".png") && drawings.contains(stem);
}

}  // namespace coldframe::temporal

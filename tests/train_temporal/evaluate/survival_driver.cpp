// survival_driver EXAMS.csv …: reads the columns time,event,group,risk,h1,h2,… of each file, the
// names from the fifth on being horizons and their values predicted survival, and prints a line of
// JSON: curves, log-rank test, figures, and Cox's loss and baseline with `risk` as outputs.
#include <iostream>

#include "common/files/csv.h"
#include "tests/train_temporal/evaluate/driver_json.h"
#include "train_temporal/evaluate/metric_table.h"
#include "train_temporal/evaluate/survival.h"
#include "train_temporal/labels/cox.h"

namespace {

using namespace coldframe;
using namespace coldframe::temporal;

Json to_json(const KaplanMeier& curve) {
  return {{"time", curve.time},
          {"survival", curve.survival},
          {"low", curve.low},
          {"high", curve.high},
          {"at_risk", curve.at_risk}};
}

Json at_horizons(const ScoredExams& exams) {
  Json list = Json::array();
  for (std::size_t h = 0; h < exams.horizons.size(); ++h) {
    const ScoredExams one = at_horizon(exams, h);
    Json groups = Json::array();
    for (const SurvivalGroup& group :
         calibration_at(outcomes_of(one), survival_of(one), exams.horizons[h], 4, 0.95))
      groups.push_back(
          {{"exams", group.exams},
           {"events", group.events},
           {"predicted", group.predicted},
           {"observed", {group.observed.value, group.observed.low, group.observed.high}}});
    list.push_back({{"auroc", to_json(compute_metric(metric_named("time_auroc"), one))},
                    {"brier", to_json(compute_metric(metric_named("integrated_brier"), one))},
                    {"groups", groups}});
  }
  return list;
}

Json cox_of(const std::vector<double>& risk, const std::vector<double>& label) {
  const BatchLoss cox = cox_loss(risk, label);
  Readout readout;
  fit_baseline(readout, risk, label);
  return {{"comparable", has_comparable_pair(label)},
          {"loss", cox.loss},
          {"gradient", cox.gradient},
          {"mean", readout.mean},
          {"times", readout.times},
          {"hazards", readout.hazards}};
}

Json all_of(const std::string& path) {
  const CsvTable table = read_csv(path);
  ScoredExams exams;
  exams.scale = Scale::kTime;
  exams.width = table.header.size() - 3;
  for (std::size_t c = 4; c < table.header.size(); ++c)
    exams.horizons.push_back(number(table.header[c]));
  std::vector<std::size_t> group;
  std::vector<double> label;
  for (const auto& row : table.rows) {
    exams.number.push_back(number(row[0]));
    exams.label.push_back(row[1] == "1");
    label.push_back(survival_label(exams.number.back(), row[1] == "1"));
    group.push_back(static_cast<std::size_t>(number(row[2])));
    for (std::size_t c = 3; c < row.size(); ++c) exams.predicted.push_back(number(row[c]));
  }
  exams.decision.resize(exams.label.size());
  const Outcomes outcomes = outcomes_of(exams);
  const LogRank test = log_rank(outcomes, group, 5);
  Json json = {{"curve", to_json(survival_curve(outcomes))},
               {"censoring", to_json(censoring_curve(outcomes))},
               {"log_rank", {test.statistic, test.p, test.freedom}},
               {"uno_without_tau", to_json(uno_c(outcomes, risks_of(exams), INFINITY))},
               {"horizons", at_horizons(exams)},
               {"cox", cox_of(risks_of(exams), label)}};
  for (const Metric metric : metrics_for(exams))
    json[std::string(metric->key)] = to_json(compute_metric(metric, exams));
  return json;
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) std::cout << all_of(argv[i]).dump() << "\n";
}

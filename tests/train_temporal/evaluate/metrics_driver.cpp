// metrics_driver SCORES.csv THRESHOLD …: reads the columns label,p0,p1,… of each file and prints
// every figure and curve as a line of JSON, undefined figures as their reason. A first column
// `grade` instead of `label` makes the classes ordinal, `number` a regression. Two last columns
// `exam` and `frame` make the target one per frame.
#include <iostream>
#include <stdexcept>

#include "common/files/csv.h"
#include "common/files/json.h"
#include "common/text/text.h"
#include "tests/train_temporal/evaluate/driver_json.h"
#include "train_temporal/evaluate/calibration.h"
#include "train_temporal/evaluate/metric_table.h"
#include "train_temporal/labels/target.h"

namespace {

using namespace coldframe;
using namespace coldframe::temporal;

Json to_json(const Curve& curve) {
  Json thresholds = Json::array();
  for (double threshold : curve.threshold) thresholds.push_back(json_number(threshold));
  return {{"x", curve.x}, {"y", curve.y}, {"threshold", thresholds}};
}

Json figures_of(const ScoredExams& exams) {
  Json json = Json::object();
  const std::vector<Metric> metrics = metrics_for(exams);
  const std::vector<MetricValue> together = compute_metrics(metrics, exams);
  for (std::size_t m = 0; m < metrics.size(); ++m) {
    const MetricValue alone = compute_metric(metrics[m], exams);
    if (alone.undefined != together[m].undefined) throw std::logic_error("figures differ");
    json[std::string(metrics[m]->key)] = to_json(alone);
  }
  return json;
}

Json figures_of_numbers(const CsvTable& table) {
  ScoredExams exams{1, {}, {}, {}, Scale::kNumber, {}};
  for (const auto& row : table.rows) {
    exams.number.push_back(number(row[0]));
    exams.predicted.push_back(number(row[1]));
  }
  exams.label.resize(table.rows.size());
  exams.decision.resize(table.rows.size());
  return figures_of(exams);
}

Json all_figures(const char* path, double threshold) {
  const CsvTable table = read_csv(path);
  if (table.header[0] == "number") return figures_of_numbers(table);
  ScoredExams exams;
  exams.per_frame = table.header.back() == "frame";
  exams.width = table.header.size() - (exams.per_frame ? 3 : 1);
  std::vector<double> logits;
  for (const auto& row : table.rows) {
    exams.label.push_back(static_cast<int>(number(row[0])));
    if (exams.per_frame) {
      const auto whole = [&](std::size_t c) { return static_cast<std::size_t>(number(row[c])); };
      exams.frame.push_back({whole(exams.width + 1), whole(exams.width + 2)});
    }
    for (std::size_t c = 1; c <= exams.width; ++c) {
      exams.predicted.push_back(number(row[c]));
      logits.push_back(std::log(std::max(exams.predicted.back(), 1e-12)));
    }
  }
  exams.decision = decide(exams.predicted, exams.width, threshold);
  if (table.header[0] == "grade") {
    const Target target{"grade", Task::kOrdinal, std::vector<std::string>(exams.width, "c")};
    exams.scale = Scale::kOrdinal;
    exams.decision = decide(target, exams.predicted, threshold);
    Json json = figures_of(exams);
    json["decision"] = exams.decision;
    return json;
  }
  Json json = figures_of(exams);
  json["confusion"] = confusion_matrix(exams);
  const OneVsRest last = one_vs_rest(exams, exams.width - 1);
  json["roc"] = to_json(roc_curve(last.score, last.positive));
  json["pr"] = to_json(precision_recall_curve(last.score, last.positive));
  json["temperature"] = fit_temperature(logits, exams.width, exams.label);
  return json;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3 || argc % 2 == 0) return 2;
  for (int i = 1; i < argc; i += 2) {
    std::cout << all_figures(argv[i], number(argv[i + 1])).dump() << "\n";
  }
}

// clinical_driver AT_LEAST PREVALENCE SCORES.csv …: reads the columns fold,patient,label,a,b
// (scores of two models) and prints a line of JSON for each file: AUROCs by DeLong and their
// difference, the mean over folds, and of `a` with all folds together the operating points and the
// decision curve.
#include <iostream>
#include <map>

#include "common/files/csv.h"
#include "tests/train_temporal/metrics/driver_json.h"
#include "train_temporal/metrics/clinical/delong.h"
#include "train_temporal/metrics/clinical/operating_points.h"

namespace {

using namespace coldframe;
using namespace coldframe::temporal;

Json to_json(const Estimate& estimate) {
  return {to_json(estimate.value), to_json(estimate.low), to_json(estimate.high)};
}

Json to_json(const DeLong& delong) {
  return {{"estimate", to_json(delong.estimate)},
          {"error", to_json(delong.error)},
          {"p", to_json(delong.p)}};
}

std::vector<FoldScores> read_scores(const CsvTable& table, std::size_t column) {
  std::map<std::size_t, FoldScores> folds;
  for (const auto& row : table.rows) {
    const auto fold = static_cast<std::size_t>(number(row[0]));
    FoldScores& one = folds.try_emplace(fold).first->second;
    one.fold = fold;
    one.patient.push_back(static_cast<std::size_t>(number(row[1])));
    one.exams.label.push_back(static_cast<int>(number(row[2])));
    const double score = number(row[column]);
    one.exams.predicted.insert(one.exams.predicted.end(), {1 - score, score});
    one.exams.decision.push_back(score >= 0.5);
  }
  std::vector<FoldScores> result;
  for (auto& [fold, scores] : folds) result.push_back(std::move(scores));
  return result;
}

Json figures_of(const char* path, double at_least, double prevalence) {
  const CsvTable table = read_csv(path);
  const auto a = read_scores(table, 3), b = read_scores(table, 4);
  const AurocParts of_a = auroc_parts(a), of_b = auroc_parts(b);
  const BootstrapOptions options{400, 0, 0.95};
  const auto point = [&](PointOf point_of) {
    const OperatingEstimate estimate = operating_point(a, point_of, at_least, options);
    return Json{{"share", to_json(estimate.share)}, {"threshold", estimate.threshold}};
  };
  Estimate sensitivity, specificity;
  for (const MetricSummary& summary : summarize(leave_out_patients(a))) {
    if (summary.metric == metric_named("sensitivity")) sensitivity = summary.pooled;
    if (summary.metric == metric_named("specificity")) specificity = summary.pooled;
  }
  const auto [ppv, npv] = predictive_values(sensitivity, specificity, prevalence);
  const DecisionCurve curve = decision_curve(pooled_by_repeat(a).front().exams);
  return {{"a", to_json(delong_auroc(of_a, 0.95))},
          {"b", to_json(delong_auroc(of_b, 0.95))},
          {"difference", to_json(delong_difference(of_a, of_b, 0.95))},
          {"sensitivity_at", point(sensitivity_at)},
          {"specificity_at", point(specificity_at)},
          {"ppv", to_json(ppv)},
          {"npv", to_json(npv)},
          {"net_benefit", {{"model", curve.model}, {"all", curve.all}}}};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  for (int i = 3; i < argc; ++i)
    std::cout << figures_of(argv[i], number(argv[1]), number(argv[2])).dump() << "\n";
}

// clinical_driver AT_LEAST PREVALENCE SCORES.csv …: reads the columns fold,patient,label,a,b
// (scores of two models) and prints a line of JSON for each file: AUROCs as means over folds with
// their variances and covariance, and of `a` with all folds together the operating points and the
// decision curve.
#include <iostream>
#include <map>

#include "common/files/csv.h"
#include "tests/train_temporal/evaluate/driver_json.h"
#include "train_temporal/evaluate/intervals.h"
#include "train_temporal/evaluate/operating_points.h"

namespace {

using namespace coldframe;
using namespace coldframe::temporal;

Json to_json(const Estimate& estimate) {
  return {to_json(estimate.value), to_json(estimate.low), to_json(estimate.high)};
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

// The AUROCs of both models, and the jackknife's variances and covariance of them.
Json aurocs_of(const std::vector<FoldScores>& a, const std::vector<FoldScores>& b) {
  const Metric auroc[] = {metric_named("auroc")};
  double value[2];
  Influences changes[2];
  for (std::size_t model = 0; model < 2; ++model) {
    const MetricTable table = leave_out_patients(model == 0 ? a : b, 0.95, auroc);
    value[model] = summarize(table).front().mean_over_folds.value.value;
    changes[model] = changes_of(table, 0, Aggregation::kOverFolds, value[model]);
  }
  return {{"a", value[0]},
          {"b", value[1]},
          {"variance_a", covariance(changes[0], changes[0])},
          {"variance_b", covariance(changes[1], changes[1])},
          {"covariance", covariance(changes[0], changes[1])}};
}

Json figures_of(const char* path, double at_least, double prevalence) {
  const CsvTable table = read_csv(path);
  const auto a = read_scores(table, 3), b = read_scores(table, 4);
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
  return {{"auroc", aurocs_of(a, b)},
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

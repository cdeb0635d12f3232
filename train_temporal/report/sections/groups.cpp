// Groups that are held out one at a time, such as sites.
#include <algorithm>
#include <limits>

#include "common/text/text.h"
#include "train_temporal/metrics/subgroups.h"
#include "train_temporal/report/report_text.h"
#include "train_temporal/report/sections/sections.h"

namespace coldframe::temporal {
namespace {

// Of the groups in which both are defined.
std::vector<MetricValue> differences(const std::vector<MetricValue>& a,
                                     const std::vector<MetricValue>& b) {
  std::vector<MetricValue> values;
  for (std::size_t g = 0; g < std::min(a.size(), b.size()); ++g)
    if (a[g].defined() && b[g].defined())
      values.push_back(MetricValue::of(a[g].value - b[g].value));
  return values;
}

}  // namespace

void know_that_groups_differ(TargetReport& report) {
  if (report.held_out_by.empty()) return;
  const double level = report.bootstrap.level;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const std::vector<MetricSummary> main = report.models.front().summary;
  for (ModelResult& model : report.models) {
    for (std::size_t m = 0; m < model.summary.size(); ++m) {
      MetricSummary& figure = model.summary[m];
      for (Estimate* one : {&figure.mean_over_folds, &figure.pooled})
        widen_by_groups(*one, figure.per_fold, level, range_of(figure.metric));
      if (m >= model.difference.size()) continue;
      const auto ahead = differences(main[m].per_fold, figure.per_fold);
      for (Estimate* one : {&model.difference[m].mean_over_folds, &model.difference[m].pooled})
        widen_by_groups(*one, ahead, level, {-kInfinity, kInfinity});
    }
  }
}

std::string groups_text(const TargetReport& report) {
  return concat(plural(report.models.front().folds.size(), "group"), " of '", report.held_out_by,
                "'");
}

void warn_of_groups(const TargetReport& report, std::vector<std::string>& warnings) {
  const Metric metric = main_metric(report.scale);
  for (const SubgroupColumn& column : report.subgroups) {
    if (column.column != report.held_out_by) continue;
    for (const Subgroup& group : column.groups) {
      const MetricSummary* figure = find_metric(group.summary, metric);
      if (figure == nullptr) continue;
      const Estimate& estimate = figure->primary();
      if (!(estimate.claim_high < metric->chance)) continue;
      warnings.push_back(concat("'", group.value, "' of '", column.column,
                                "' lies below chance: ", report.models.front().name, " reaches ",
                                metric->title, " ", interval_text(estimate),
                                " there, so that it is wrong to use it in a group like that; ",
                                "look at how its labels and images were made"));
    }
  }
}

}  // namespace coldframe::temporal

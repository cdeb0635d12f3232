// Groups that are held out one at a time, such as sites: a figure of new ones owes more to chance
// than patients show, since groups differ.
#include <algorithm>
#include <cmath>
#include <limits>

#include "common/text/text.h"
#include "train_temporal/metrics/intervals/bounds.h"
#include "train_temporal/report/report_text.h"
#include "train_temporal/report/sections/sections.h"

namespace coldframe::temporal {
namespace {

// Two say nothing of how groups differ: Student's distribution has one degree of freedom.
constexpr std::size_t kLeastGroups = 3;

// The interval becomes that of a mean of groups, by Student's distribution, where this is wider.
void widen(Estimate& estimate, const std::vector<double>& of_group, double level,
           const MetricRange& range) {
  if (!estimate.value.defined() || !estimate.low.defined()) return;
  const auto n = static_cast<double>(of_group.size());
  if (of_group.size() < kLeastGroups) {
    estimate.low = estimate.high = MetricValue::none(
        concat(plural(of_group.size(), "group"), " do not show how groups differ"));
    estimate.claim_low = estimate.claim_high = std::numeric_limits<double>::quiet_NaN();
    return;
  }
  double mean = 0, squares = 0;
  for (const double value : of_group) mean += value / n;
  for (const double value : of_group) squares += (value - mean) * (value - mean);
  const double error = std::sqrt(squares / (n - 1) / n), value = estimate.value.value;
  const auto reach = [&](double of) { return error * student_quantile((1 + of) / 2, n - 1); };
  const auto below = [&](double bound, double of) {
    return std::max(std::min(bound, value - reach(of)), range.low);
  };
  const auto above = [&](double bound, double of) {
    return std::min(std::max(bound, value + reach(of)), range.high);
  };
  estimate.low = MetricValue::of(below(estimate.low.value, level));
  estimate.high = MetricValue::of(above(estimate.high.value, level));
  estimate.claim_low = below(estimate.claim_low, kClaimLevel);
  estimate.claim_high = above(estimate.claim_high, kClaimLevel);
}

std::vector<double> defined(const std::vector<MetricValue>& figures) {
  std::vector<double> values;
  for (const MetricValue& figure : figures)
    if (figure.defined()) values.push_back(figure.value);
  return values;
}

// Of the groups in which both are defined.
std::vector<double> differences(const std::vector<MetricValue>& a,
                                const std::vector<MetricValue>& b) {
  std::vector<double> values;
  for (std::size_t g = 0; g < std::min(a.size(), b.size()); ++g)
    if (a[g].defined() && b[g].defined()) values.push_back(a[g].value - b[g].value);
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
        widen(*one, defined(figure.per_fold), level, range_of(figure.metric));
      if (m >= model.difference.size()) continue;
      const auto ahead = differences(main[m].per_fold, figure.per_fold);
      for (Estimate* one : {&model.difference[m].mean_over_folds, &model.difference[m].pooled})
        widen(*one, ahead, level, {-kInfinity, kInfinity});
    }
  }
}

std::string groups_text(const TargetReport& report) {
  return concat(plural(report.models.front().folds.size(), "group"), " of '", report.held_out_by,
                "'");
}

std::vector<std::string> warn_of_groups(const TargetReport& report) {
  std::vector<std::string> warnings;
  const Metric metric = main_metric(report.scale);
  for (const SubgroupColumn& column : report.subgroups) {
    if (column.column != report.held_out_by) continue;
    for (const Subgroup& group : column.groups) {
      const auto figure = std::ranges::find(group.summary, metric, &MetricSummary::metric);
      if (figure == group.summary.end()) continue;
      const Estimate& estimate = figure->primary();
      if (!(estimate.claim_high < metric->chance)) continue;
      warnings.push_back(concat("'", group.value, "' of '", column.column,
                                "' lies below chance: ", report.models.front().name, " reaches ",
                                metric->title, " ", interval_text(estimate),
                                " there, so that it is wrong to use it in a group like that; ",
                                "look at how its labels and images were made"));
    }
  }
  return warnings;
}

}  // namespace coldframe::temporal

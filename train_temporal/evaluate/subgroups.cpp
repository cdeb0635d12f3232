#include "train_temporal/evaluate/subgroups.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "common/text/text.h"

namespace coldframe::temporal {

void widen_by_groups(Estimate& estimate, const std::vector<MetricValue>& figures, double level,
                     const MetricRange& range) {
  // Two groups are too few to estimate their variance: Student's distribution has one degree of
  // freedom.
  constexpr std::size_t kMinGroups = 3;
  std::vector<double> of_group;
  for (const MetricValue& figure : figures)
    if (figure.defined()) of_group.push_back(figure.value);
  if (!estimate.value.defined() || !estimate.low.defined()) return;
  const auto n = static_cast<double>(of_group.size());
  const auto bound_nothing = [&] {
    estimate.low = estimate.high = MetricValue::none(
        concat(plural(of_group.size(), "group"), " do not show how groups differ"));
    estimate.claim_low = estimate.claim_high = std::numeric_limits<double>::quiet_NaN();
  };
  if (of_group.size() < kMinGroups) return bound_nothing();
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
  if (is_any_value({estimate.low, estimate.high}, range)) bound_nothing();
}

namespace {

// The folds' exams of which `takes` is true of the number of their value; folds without any are
// left out.
template <class Takes>
std::vector<FoldScores> exams_where(const std::vector<FoldScores>& folds,
                                    const SubgroupColumn& column, const Takes& takes) {
  std::vector<FoldScores> result;
  for (std::size_t f = 0; f < folds.size(); ++f) {
    std::vector<std::size_t> rows;
    for (std::size_t i = 0; i < folds[f].exams.size(); ++i)
      if (takes(column.value_of[folds[f].exams.frame[i].exam])) rows.push_back(i);
    if (rows.empty()) continue;
    FoldScores& fold = result.emplace_back();
    fold.repeat = folds[f].repeat;
    fold.fold = folds[f].fold;
    fold.exams = exams_at(folds[f].exams, rows);
    for (std::size_t i : rows) fold.patient.push_back(folds[f].patient[i]);
  }
  return result;
}

void count_group(Subgroup& group, const std::vector<FoldScores>& folds, std::size_t classes) {
  const FoldScores all = pooled_by_repeat(folds).front();
  group.exams = all.exams.size();
  group.patients = std::set<std::size_t>(all.patient.begin(), all.patient.end()).size();
  group.exams_per_class.assign(classes, 0);
  if (classes == 0) return;
  for (int label : all.exams.label) ++group.exams_per_class[static_cast<std::size_t>(label)];
}

// Both from the same: means over folds, or all folds together.
Estimate difference_between(const MetricSummary& a, const MetricSummary& b, std::size_t shared) {
  Estimate result = a.by_fold && b.by_fold
                        ? unpaired_difference(a.mean_over_folds, b.mean_over_folds)
                        : unpaired_difference(a.pooled, b.pooled);
  if (shared == 0 || !result.value.defined()) return result;
  result = {result.value, {}, {}};
  result.low = result.high = MetricValue::none(
      concat(plural(shared, "patient"), shared == 1 ? " has" : " have", " exams in both"));
  return result;
}

std::size_t patients_in_both(const std::vector<FoldScores>& a, const std::vector<FoldScores>& b) {
  std::set<std::size_t> of_a, both;
  for (const FoldScores& fold : a) of_a.insert(fold.patient.begin(), fold.patient.end());
  for (const FoldScores& fold : b)
    for (std::size_t patient : fold.patient)
      if (of_a.contains(patient)) both.insert(patient);
  return both.size();
}

Subgroup evaluate_group(const SubgroupColumn& column, std::size_t value,
                        const std::vector<FoldScores>& folds, std::size_t classes, double level) {
  Subgroup group;
  group.value = column.values[value];
  const auto own = exams_where(folds, column, [&](std::size_t v) { return v == value; });
  const auto others = exams_where(
      folds, column, [&](std::size_t v) { return v != value && v < column.values.size(); });
  if (own.empty()) return group;  // its exams train in every fold
  count_group(group, own, classes);
  group.summary = summarize(leave_out_patients(own, level));
  if (others.empty()) return group;
  const auto rest = summarize(leave_out_patients(others, level));
  const std::size_t shared = patients_in_both(own, others);
  for (std::size_t m = 0; m < rest.size(); ++m)
    group.minus_others.push_back(difference_between(group.summary[m], rest[m], shared));
  return group;
}

}  // namespace

void evaluate_groups(SubgroupColumn& column, const std::vector<FoldScores>& folds,
                     std::size_t classes, double level) {
  for (std::size_t v = 0; v < column.values.size(); ++v)
    column.groups.push_back(evaluate_group(column, v, folds, classes, level));
  for (const FoldScores& fold : folds)
    if (fold.repeat == folds.front().repeat)
      column.without_value += static_cast<std::size_t>(
          std::ranges::count_if(fold.exams.frame, [&](const FrameOfExam& row) {
            return column.value_of[row.exam] == column.values.size();
          }));
}

}  // namespace coldframe::temporal

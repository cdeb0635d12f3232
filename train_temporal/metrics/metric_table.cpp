// The metrics of all files in one table.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "train_temporal/metrics/metric_table.h"

namespace coldframe::temporal {
namespace {

std::vector<const MetricRow*> all_rows() {
  std::vector<const MetricRow*> rows;
  for (const auto part : {class_metrics(), frame_metrics(), number_metrics(), time_metrics()})
    for (const MetricRow& row : part) rows.push_back(&row);
  return rows;
}

const std::vector<const MetricRow*>& table() {
  static const std::vector<const MetricRow*> rows = all_rows();
  return rows;
}

unsigned kind_of(Scale scale, std::size_t classes) {
  switch (scale) {
    case Scale::kNominal:
      return classes == 2 ? kTwoClasses : kManyClasses;
    case Scale::kOrdinal:
      return kOrdinalClasses;
    case Scale::kNumber:
      return kNumbers;
    case Scale::kTime:
      break;
  }
  return kTimes;
}

// Why nothing can be computed from these exams; empty where something can.
std::string unusable(const ScoredExams& exams) {
  if (exams.size() == 0) return "no exams";
  if (std::ranges::all_of(exams.probability, [](double p) { return std::isfinite(p); })) return {};
  const bool numbers = exams.scale == Scale::kNumber || exams.scale == Scale::kTime;
  return numbers ? "a prediction is not a number" : "a predicted probability is not a number";
}

}  // namespace

const MetricRow& row_of(Metric metric) {
  static const auto by_metric = [] {
    std::map<Metric, const MetricRow*> rows;
    for (const MetricRow* row : table()) rows[row->metric] = row;
    return rows;
  }();
  return *by_metric.at(metric);
}

std::string_view metric_key(Metric metric) {
  return row_of(metric).key;
}
std::string_view metric_title(Metric metric) {
  return row_of(metric).title;
}
double chance_level(Metric metric) {
  return row_of(metric).chance;
}

std::vector<Metric> metrics_for(const ScoredExams& exams) {
  std::vector<Metric> metrics;
  for (const MetricRow* row : table()) {
    const bool applies = (row->labels & kind_of(exams.scale, exams.classes)) != 0;
    if (applies && (exams.per_frame || !row->frames_only) &&
        (exams.relaxed_frames > 0 || !row->relaxed_only))
      metrics.push_back(row->metric);
  }
  return metrics;
}

std::vector<Metric> metrics_with(bool MetricRow::*flag, Scale scale) {
  std::vector<Metric> metrics;
  for (const MetricRow* row : table())
    if (row->*flag && (row->labels & kind_of(scale, 2)) != 0) metrics.push_back(row->metric);
  return metrics;
}

Metric main_metric(Scale scale) {
  return metrics_with(&MetricRow::compared, scale).front();
}

MetricValue compute_metric(Metric metric, const ScoredExams& exams) {
  return compute_metrics({&metric, 1}, exams).front();
}

std::vector<MetricValue> compute_metrics(std::span<const Metric> metrics,
                                         const ScoredExams& exams) {
  const std::string why = unusable(exams);
  const MetricInput input(exams);
  std::vector<MetricValue> values;
  for (const Metric metric : metrics)
    values.push_back(why.empty() ? row_of(metric).compute(input) : MetricValue::none(why));
  return values;
}

}  // namespace coldframe::temporal

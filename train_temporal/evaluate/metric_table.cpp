#include "train_temporal/evaluate/metric_table.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <stdexcept>

#include "common/text/text.h"
#include "train_temporal/evaluate/metric_rows.h"

namespace coldframe::temporal {
namespace {

const std::vector<Metric>& table() {
  static const std::vector<Metric> all = [] {
    std::vector<Metric> rows;
    for (const auto part : {class_metrics(), frame_metrics(), number_metrics(), time_metrics()})
      for (const MetricRow& row : part) rows.push_back(&row);
    return rows;
  }();
  return all;
}

unsigned kind_of(Scale scale, std::size_t classes) {
  switch (scale) {
    case Scale::kNominal:
      return classes == 2 ? kTwoClasses : kManyClasses;
    case Scale::kOrdinal:
      return kOrdinalClasses;
    case Scale::kNumber:
      return kNumberLabels;
    case Scale::kTime:
      break;
  }
  return kTimeLabels;
}

// Why nothing can be computed from these exams; empty where something can.
std::string unusable(const ScoredExams& exams) {
  if (exams.size() == 0) return "no exams";
  if (std::ranges::all_of(exams.predicted, [](double p) { return std::isfinite(p); })) return {};
  const bool numbers = exams.scale == Scale::kNumber || exams.scale == Scale::kTime;
  return numbers ? "a prediction is not a number" : "a predicted probability is not a number";
}

}  // namespace

Metric metric_named(std::string_view key) {
  const auto found = std::ranges::find(table(), key, &MetricRow::key);
  if (found == table().end()) throw std::logic_error(concat("no metric is called ", key));
  return *found;
}

std::vector<Metric> metrics_for(const ScoredExams& exams) {
  std::vector<Metric> metrics;
  for (const Metric each : table()) {
    const bool applies = (each->labels & kind_of(exams.scale, exams.width)) != 0;
    if (applies && (exams.per_frame || !each->frames_only)) metrics.push_back(each);
  }
  return metrics;
}

std::vector<Metric> metrics_of_one_class() {
  std::vector<Metric> metrics;
  std::ranges::copy_if(table(), std::back_inserter(metrics),
                       [](Metric each) { return (each->labels & kOneClass) != 0; });
  return metrics;
}

std::string title_of(Metric metric, std::size_t classes) {
  const bool is_macro = metric->mean_of_classes > 2 && classes >= metric->mean_of_classes;
  return concat(is_macro ? "macro " : "", metric->title);
}

std::vector<Metric> compared_metrics(Scale scale) {
  std::vector<Metric> metrics;
  for (const Metric each : table())
    if (each->compared && (each->labels & kind_of(scale, 2)) != 0) metrics.push_back(each);
  return metrics;
}

Metric main_metric(Scale scale) {
  return compared_metrics(scale).front();
}

MetricValue compute_metric(Metric metric, const ScoredExams& exams) {
  return compute_metrics({&metric, 1}, exams).front();
}

std::vector<MetricValue> compute_by_class(Metric metric, const ScoredExams& exams) {
  const bool is_mean =
      metric->by_class != nullptr && exams.label_count() >= metric->mean_of_classes;
  if (!is_mean) return {};
  const std::string why = unusable(exams);
  return why.empty() ? metric->by_class(MetricInput(exams))
                     : std::vector(exams.label_count(), MetricValue::none(why));
}

std::vector<MetricValue> compute_metrics(std::span<const Metric> metrics,
                                         const ScoredExams& exams) {
  const std::string why = unusable(exams);
  const MetricInput input(exams);
  std::vector<MetricValue> values;
  for (const Metric metric : metrics)
    values.push_back(why.empty() ? metric->compute(input) : MetricValue::none(why));
  return values;
}

}  // namespace coldframe::temporal

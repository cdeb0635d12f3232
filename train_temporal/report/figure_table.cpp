#include "train_temporal/report/figure_table.h"

#include "common/files/csv.h"
#include "common/text/text.h"

namespace coldframe::temporal {
namespace {

Estimate alone(const MetricValue& figure) {
  return {figure, MetricValue::none(""), MetricValue::none("")};
}

}  // namespace

void FigureTable::add(const Of& of, const std::string& figure, const Estimate& estimate) {
  std::vector<std::string> row = of;
  row.push_back(figure);
  for (const MetricValue* each : {&estimate.value, &estimate.low, &estimate.high})
    row.push_back(each->defined() ? exact(each->value) : "");
  row.push_back(estimate.value.defined() ? estimate.low.undefined : estimate.value.undefined);
  rows_ += csv_row(row);
}

void FigureTable::add(const Of& of, const std::string& figure, double value) {
  add(of, figure, alone(MetricValue::of(value)));
}

void FigureTable::add(const Of& of, const std::vector<MetricSummary>& summaries) {
  for (const MetricSummary& one : summaries) add(of, std::string(one.metric->key), one.primary());
}

std::string FigureTable::csv() const {
  return csv_row({"model", "column", "group", "what", "figure", "value", "low", "high", "note"}) +
         rows_;
}

}  // namespace coldframe::temporal

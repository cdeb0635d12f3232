// The figures of a report as a table, one a row, so that programs and papers take what they need.
#pragma once

#include <string>
#include <vector>

#include "train_temporal/report/report.h"

namespace coldframe::temporal {

// `of`: model, column, group and what the figure is.
class FigureTable {
 public:
  using Of = std::vector<std::string>;
  void add(const Of& of, const std::string& figure, const Estimate& estimate);
  void add(const Of& of, const std::string& figure,
           double value);  // without an interval
  void add(const Of& of, const std::vector<MetricSummary>& summaries);
  std::string csv() const;

 private:
  std::string rows_;
};

}  // namespace coldframe::temporal

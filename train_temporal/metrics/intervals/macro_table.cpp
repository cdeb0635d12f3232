// The mean of several targets' figures.
#include <algorithm>
#include <limits>

#include "train_temporal/metrics/intervals/intervals.h"

namespace coldframe::temporal {
namespace {

// Position by position; NaN, or the first reason, where one of the rows has no value.
std::vector<double> mean_of_all(const std::vector<std::vector<double>>& rows) {
  std::vector<double> mean(rows.front().size(), 0.0);
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += row[i];
  }
  for (double& value : mean) value /= static_cast<double>(rows.size());
  return mean;
}

std::vector<MetricValue> mean_of_all(const std::vector<std::vector<MetricValue>>& rows) {
  std::vector<std::vector<double>> numbers;
  for (const auto& row : rows) {
    std::vector<double>& values = numbers.emplace_back();
    for (const MetricValue& figure : row) values.push_back(figure.value);
  }
  std::vector<MetricValue> result;
  for (double mean : mean_of_all(numbers)) result.push_back(MetricValue::of(mean));
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < result.size(); ++i) {
      if (result[i].defined() && !row[i].defined()) result[i] = row[i];
    }
  }
  return result;
}

}  // namespace

MetricTable macro_table(std::span<const MetricTable> targets) {
  const MetricTable& first = targets.front();
  MetricTable macro;
  macro.level = first.level;
  macro.pairs = first.pairs;
  macro.patients = first.patients;
  macro.patients_of_class = {*std::ranges::min_element(first.patients_of_class)};
  for (const MetricTable& target : targets) {
    macro.pairs = std::min(macro.pairs, target.pairs);
    macro.patients_of_class[0] =
        std::min(macro.patients_of_class[0], *std::ranges::min_element(target.patients_of_class));
  }
  for (const MetricTable::Block& block : first.blocks) macro.blocks.push_back({block.fold, 0, {}});
  for (std::size_t m = 0; m < first.metrics.size(); ++m) {
    if (!first.metrics[m]->over_targets) continue;
    macro.metrics.push_back(first.metrics[m]);
    std::vector<std::vector<MetricValue>> fold, pooled;
    for (const MetricTable& target : targets) {
      fold.push_back(target.per_fold[m]);
      pooled.push_back(target.pooled[m]);
    }
    macro.per_fold.push_back(mean_of_all(fold));
    macro.pooled.push_back(mean_of_all(pooled));
    for (std::size_t b = 0; b < first.blocks.size(); ++b) {
      std::vector<std::vector<double>> folds_left, pooled_left;
      for (const MetricTable& target : targets) {
        folds_left.push_back(target.blocks[b].without[m].fold);
        pooled_left.push_back(target.blocks[b].without[m].pooled);
      }
      macro.blocks[b].without.push_back({mean_of_all(folds_left), mean_of_all(pooled_left)});
    }
  }
  return macro;
}

}  // namespace coldframe::temporal

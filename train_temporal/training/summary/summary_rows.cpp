#include "train_temporal/training/summary/summary_rows.h"

#include <limits>

#include "train_temporal/tasks/survival.h"

namespace coldframe::temporal {
namespace {

constexpr double kNoRank = std::numeric_limits<double>::quiet_NaN();

// Output k asks those above class k − 1 whether they are above k.
void add_ranks(std::vector<double>& value, double label, std::size_t outputs) {
  for (std::size_t k = 0; k < outputs; ++k) {
    const auto rank = static_cast<double>(k);
    value.push_back(label < rank ? kNoRank : label > rank ? 1 : 0);
  }
}

}  // namespace

RowLabels row_labels(const Labels& labels, const Readout& reading,
                     const std::vector<std::size_t>& exams) {
  RowLabels rows;
  rows.outputs = labels.binary() ? 1 : labels.outputs();
  for (const std::size_t exam : exams) {
    const double label = labels.at(exam, 0);
    switch (labels.task) {
      case Task::kBinary:
        rows.value.push_back(label);
        break;
      case Task::kMulticlass:
        rows.loss = RowLabels::Loss::kSoftmax;
        rows.value.push_back(label);
        break;
      case Task::kOrdinal:
        add_ranks(rows.value, label, rows.outputs);
        break;
      case Task::kRegression:
        rows.loss = RowLabels::Loss::kSquares;
        rows.value.push_back((label - reading.mean) / reading.deviation);
        break;
      case Task::kCox:
        rows.loss = RowLabels::Loss::kCox;
        rows.value.push_back(label);
        break;
      case Task::kHazards:
        rows.offset = reading.hazards;
        for (const double event : interval_labels(label, reading)) rows.value.push_back(event);
        break;
    }
  }
  return rows;
}

std::vector<double> as_outputs(const Target& target, std::span<const double> z) {
  if (!target.binary()) return {z.begin(), z.end()};
  std::vector<double> outputs;
  for (const double logit : z) outputs.insert(outputs.end(), {-logit / 2, logit / 2});
  return outputs;
}

}  // namespace coldframe::temporal

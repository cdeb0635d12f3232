#include "train_temporal/training/objective/validation_figure.h"

#include "train_temporal/metrics/metric_table.h"

namespace coldframe::temporal {

namespace {

// The validation part as metrics want it, of one target, from the outputs [n, C] of all. Decisions
// are made at 0.5 and without a temperature: both are fitted after the last epoch only.
ScoredExams validation_rows(const Targets& targets, std::size_t target, const Split& split,
                            const std::vector<double>& outputs) {
  const Labels& labels = targets[target];
  const auto own =
      columns(outputs, targets.outputs(), targets.first_output(target), labels.outputs());
  const auto scores = scores_of(labels, readout_of(labels, split.train), own);
  return scored_rows(labels, split.validation, scores, decide(labels, scores, 0.5));
}

}  // namespace

std::optional<double> validation_figure(const Targets& targets, const Split& split,
                                        const std::vector<double>& outputs) {
  double sum = 0, count = 0;
  for (std::size_t t = 0; t < targets.size(); ++t) {
    const ScoredExams rows = validation_rows(targets, t, split, outputs);
    const MetricValue figure = compute_metric(main_metric(rows.scale), rows);
    if (!figure.defined()) continue;
    sum += figure.value;
    ++count;
  }
  if (count == 0) return {};
  return sum / count;
}

}  // namespace coldframe::temporal

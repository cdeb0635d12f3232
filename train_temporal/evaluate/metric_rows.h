// The exams of which metrics are computed, with intermediate results that several metrics share.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "train_temporal/evaluate/calibration.h"
#include "train_temporal/evaluate/metrics.h"

namespace coldframe::temporal {

// The labels and decisions of one exam's frames, in order.
struct FrameSequence {
  std::vector<int> label, decision;
};

// Computes each part lazily. Requires at least one exam, and no NaN scores.
class MetricInput {
 public:
  explicit MetricInput(const ScoredExams& of) : exams(of) {}

  const ScoredExams& exams;
  const ConfusionMatrix& confusion() const;
  const CalibrationLine& calibration() const;           // binary
  const std::vector<FrameSequence>& sequences() const;  // per frame

  // Why a metric that needs every class is undefined; empty if it is defined.
  std::string missing_class() const;

 private:
  mutable std::optional<ConfusionMatrix> confusion_;
  mutable std::optional<CalibrationLine> calibration_;
  mutable std::optional<std::vector<FrameSequence>> sequences_;
};

}  // namespace coldframe::temporal

// The exams that metrics are computed of, with what several metrics need.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "train_temporal/evaluate/calibration.h"
#include "train_temporal/evaluate/metrics.h"

namespace coldframe::temporal {

// The labels and decisions of one exam's frames, in their order.
struct FrameSequence {
  std::vector<int> label, decision;
};

// Computes each part when it is first asked for. Expects one exam or more, whose scores are all
// numbers.
class MetricInput {
 public:
  explicit MetricInput(const ScoredExams& of) : exams(of) {}

  const ScoredExams& exams;
  const ConfusionMatrix& confusion() const;
  const CalibrationLine& calibration() const;           // binary
  const std::vector<FrameSequence>& sequences() const;  // per frame

  // Why a metric that needs every class has no value; empty when it has one.
  std::string missing_class() const;

 private:
  mutable std::optional<ConfusionMatrix> confusion_;
  mutable std::optional<CalibrationLine> calibration_;
  mutable std::optional<std::vector<FrameSequence>> sequences_;
};

}  // namespace coldframe::temporal

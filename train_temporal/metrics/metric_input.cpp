#include "train_temporal/metrics/metric_input.h"

#include <algorithm>
#include <numeric>

#include "common/text/text.h"

namespace coldframe::temporal {
namespace {

// Rows of binary targets come ordered by score.
std::vector<FrameSequence> sequences_of(const ScoredExams& exams) {
  std::vector<std::size_t> order(exams.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) {
    return std::pair(exams.frame[i].exam, exams.frame[i].frame);
  });
  std::vector<FrameSequence> sequences;
  for (std::size_t k = 0; k < order.size(); ++k) {
    const bool first = k == 0 || exams.frame[order[k]].exam != exams.frame[order[k - 1]].exam;
    FrameSequence& sequence = first ? sequences.emplace_back() : sequences.back();
    sequence.label.push_back(exams.label[order[k]]);
    sequence.decision.push_back(exams.decision[order[k]]);
  }
  return sequences;
}

}  // namespace

const ConfusionMatrix& MetricInput::confusion() const {
  if (!confusion_) confusion_ = confusion_matrix(exams);
  return *confusion_;
}

const CalibrationLine& MetricInput::calibration() const {
  if (!calibration_) {
    const OneVsRest positive = one_vs_rest(exams, 1);
    calibration_ = calibration_line(positive.score, positive.positive);
  }
  return *calibration_;
}

const std::vector<FrameSequence>& MetricInput::sequences() const {
  if (!sequences_) sequences_ = sequences_of(exams);
  return *sequences_;
}

std::string MetricInput::missing_class() const {
  for (std::size_t c = 0; c < exams.label_count(); ++c) {
    if (std::ranges::find(exams.label, static_cast<int>(c)) != exams.label.end()) continue;
    if (exams.label_count() > 2) return concat("no exam of class number ", c);
    return c == 1 ? "no positive exam" : "no negative exam";
  }
  return {};
}

}  // namespace coldframe::temporal

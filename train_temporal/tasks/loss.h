// The loss of one target and its gradient at the outputs of the head, in double precision, written
// out: the same code serves the fused kernels and the models that LibTorch differentiates.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "train_temporal/tasks/target.h"

namespace coldframe::temporal {

enum class LossKind {
  kAuto,   // cross-entropy, CORN's loss, the squared error, or a likelihood of times, by the task
  kFocal,  // classes: −(1 − p)^γ log p (Lin et al. 2017)
  kMse,    // regression: e², of standardised numbers
  kHuber,  // regression: e² / 2 up to |e| = δ, from there on δ (|e| − δ / 2) (Huber 1964)
};
struct LossOptions {
  LossKind kind = LossKind::kAuto;
  double parameter = 0;  // γ or δ

  bool operator==(const LossOptions&) const = default;
};
// auto, focal, focal=GAMMA (default 2), mse, huber, huber=DELTA (default 1). ConfigError.
LossOptions parse_loss(const std::string& text);
std::string to_string(const LossOptions& options);
bool applies(const LossOptions& options, Task task);

// An exam of class c counts this much in the loss, [C].
using ClassWeights = std::vector<double>;
ClassWeights equal_weights(std::size_t classes);
// N / (C · N_c) with the exams of each of the C classes that have any: each class counts the same
// as a whole. 1 for a class without exams, of which only a validation part can have some.
ClassWeights balanced_weights(std::span<const std::size_t> count);

class RowLoss;  // task_kind.h

// Of rows that are each other's: the loss of each, [n], and the gradient of their sum at their one
// output, [n].
struct BatchLoss {
  std::vector<double> loss, gradient;
};

class TargetLoss {
 public:
  // `weights`: of the classes; numbers and times: none. Where `options` do not apply to the task,
  // the loss is the one of kAuto. `smoothing`: where the loss is the cross-entropy, so much of a
  // label is shared by all classes alike (Szegedy et al. 2016).
  TargetLoss(const Target& target, const LossOptions& options, ClassWeights weights,
             const Readout& readout, double smoothing = 0);

  std::size_t outputs() const { return outputs_; }
  const ClassWeights& weights() const { return weights_; }
  // Cross-entropy without more: LibTorch has it, too.
  bool is_cross_entropy() const;

  // True for Cox's loss, which is one of all rows of a batch that have a label.
  bool is_of_batch() const;
  BatchLoss of_batch(std::span<const double> z, std::span<const double> label) const;

  // `value`: the number of the class, the number in the unit of the column, or a survival_label();
  // NaN: no label.
  // A row of this value adds so much to the divisor of a mean; 0 without a label. Cox: 1 for an
  // event, 0 when censored.
  double weight(double value) const;
  // The weighted loss of outputs z [outputs]; `gradient`, unless null, receives that of the loss
  // divided by `total`. Nothing but zeros without a label.
  double operator()(std::span<const double> z, double value, double total, float* gradient) const;

 private:
  std::size_t outputs_;
  ClassWeights weights_;
  std::shared_ptr<const RowLoss> of_row_;
};

}  // namespace coldframe::temporal

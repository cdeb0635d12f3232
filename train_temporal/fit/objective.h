// What a fit minimises: losses of targets and rows, mixup, early stopping, and the metric of the
// validation part.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "common/text/spelling.h"
#include "common/torch/tensor.h"
#include "train_temporal/data/batcher.h"
#include "train_temporal/labels/labels.h"
#include "train_temporal/labels/split.h"
#include "train_temporal/labels/task_kind.h"

namespace coldframe::temporal {

// Mixup (Zhang et al. 2018) of sequences: mixes an exam with another one of its batch. Features are
// mixed frame by frame, with the partner's sequence stretched or shrunk to the exam's length.
// Times, length and mask remain the exam's, so its weight is at least one half. The loss combines
// both labels with the same weights.

// Draws for every item its partner and its own weight, max(λ, 1 − λ) with λ ~ Beta(α, α). They
// depend on the seed, the epoch, the exam and the batch, never on micro-batches.
void draw_partners(std::span<BatchItem> items, const Dataset& dataset, double alpha,
                   std::uint64_t seed, std::uint64_t epoch);

// Beta(α, α) by Jöhnk's rejection (1964), for α from kMinMixup to kMaxMixup.
inline constexpr double kMinMixup = 0.01, kMaxMixup = 4;
double draw_beta(double alpha, CounterRandom& random);

// The objective of a fit: the weighted losses of all targets of a cohort.

// Sums of losses and their divisors by target, so that the sums of parts of a batch add up.
struct LossSum {
  struct TargetSum {
    double loss = 0, weight = 0;
  };
  std::vector<TargetSum> targets;
  torch::Tensor on_device = {};  // double: first target's loss on the device; adds to `targets`

  // The mean over targets of each target's mean loss over its labelled exams (or frames); targets
  // without labels are left out; 0 if none has any.
  double mean() const;  // waits for the device
  std::size_t labeled_targets() const;
  LossSum& operator+=(const LossSum& other);
  void add(const torch::Tensor& loss);  // to the first target's
};

struct ObjectiveOptions {
  LossOptions loss;
  double label_smoothing = 0;  // label smoothing ε: fraction spread uniformly over all classes
  bool class_weights = false;  // equal total weight per class, by the training labels
};

// The outputs [C] of each exam of a batch; an ordered map, so that sums have a fixed order.
using BatchOutputs = std::map<std::size_t, std::vector<double>>;
// Adds the outputs of a part, [B, C] in its order; for per-exam targets.
void add_outputs(BatchOutputs& all, const PackedBatch& part, const float* outputs,
                 std::size_t width);

class Objective {
 public:
  // `targets` must live on.
  Objective(const Targets& targets, const std::vector<std::size_t>& train,
            const ObjectiveOptions& options);

  // True if a loss couples all exams of a batch, as Cox's does: then call couple() with the outputs
  // of the whole batch before add() with its parts.
  bool couples() const;
  void couple(const BatchOutputs& batch);

  // Returns a LossSum with losses 0 and the divisors of the losses over `items`.
  LossSum weights_of(std::span<const BatchItem> items) const;
  // Adds the losses of `batch` to `sum`. outputs: [B, C] in the order of the batch (per-frame
  // targets: [N, C]). d_outputs receives the gradient of the mean loss of a batch with the divisors
  // `total`, which may be `sum`.
  void add(const PackedBatch& batch, const float* outputs, const LossSum& total, LossSum& sum,
           float* d_outputs) const;
  // False if of() of these exams does not depend on the outputs: none has a label or, for a Cox
  // loss, no two are comparable.
  bool judges(const std::vector<std::size_t>& exams) const;
  // The losses of outputs [n, C] in the order of `exams` and their frames, without label smoothing.
  LossSum of(std::span<const double> outputs, const std::vector<std::size_t>& exams) const;

  // True for the plain cross-entropy of a single per-exam target, which LibTorch computes on the
  // model's device; cross_entropy() is that loss, summed over the batch.
  bool is_cross_entropy() const;
  torch::Tensor cross_entropy(const torch::Tensor& outputs, const PackedBatch& batch) const;
  // Its inputs: an exam's class and its weight, 0 without a label.
  std::int64_t class_of(std::size_t exam) const { return class_of_[exam]; }
  float weight_of(std::size_t exam) const { return weight_of_[exam]; }

 private:
  struct Coupled {
    double loss = 0, gradient = 0;  // of the sum over the batch
  };
  const Targets& targets_;
  std::vector<TargetLoss> losses_, plain_;               // in training, in evaluation
  std::vector<std::map<std::size_t, Coupled>> coupled_;  // [target] of each exam
  // Of every exam, for cross_entropy().
  std::vector<std::int64_t> class_of_;
  std::vector<float> weight_of_;
  mutable torch::Tensor classes_, weights_;  // the same, on the device of its last call
};

// The cross-entropy of outputs [B, C], summed over the batch. classes: [B] int64; weights: [B]
torch::Tensor cross_entropy_of(const torch::Tensor& outputs, const torch::Tensor& classes,
                               const torch::Tensor& weights);

// Stops if the validation part has not improved for `patience` epochs. A plain value, so that a
// checkpoint can hold it.

// What early stopping compares: the higher metric, and for equal metrics the lower loss.
enum class StoppingMetric {
  kLoss,    // the metric is always 0
  kMetric,  // see validation_figure()
};
inline const WordTable<StoppingMetric> kStoppingMetrics{{"loss", StoppingMetric::kLoss},
                                                        {"metric", StoppingMetric::kMetric}};

struct EarlyStop {
  std::size_t patience = 10;  // max epochs without improvement; 0: never stop
  bool blind = false;         // the validation part cannot rank epochs: keep the last one

  double best_figure = -std::numeric_limits<double>::max();
  double best_loss = std::numeric_limits<double>::infinity();
  std::size_t best_epoch = 0;  // counted from 0, as are the calls of update()
  std::size_t epochs = 0;      // losses seen

  // True if this epoch, with finite values, is the best so far: keep its weights.
  bool update(double loss, double figure = 0) {
    const bool improved =
        blind || figure > best_figure || (figure == best_figure && loss < best_loss);
    if (improved) {
      best_figure = figure;
      best_loss = loss;
      best_epoch = epochs;
    }
    ++epochs;
    return improved;
  }

  bool should_stop() const {
    return patience > 0 && epochs > 0 && epochs - 1 - best_epoch >= patience;
  }
};

// The validation metric that early stopping can watch.

// The mean of main_metric() over the targets for which it is defined on the validation part (AUROC
// needs two classes); empty if there is none.
std::optional<double> validation_figure(const Targets& targets, const Split& split,
                                        const std::vector<double>& outputs);

}  // namespace coldframe::temporal

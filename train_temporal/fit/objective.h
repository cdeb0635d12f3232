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

// Mixup (Zhang et al. 2018) of sequences: an exam is trained as a mixture with another one of its
// batch. Features are mixed frame by frame, the partner's sequence being stretched or shrunk to the
// exam's length; times, length and mask stay the exam's, whose share is therefore half or more; the
// loss is that of both labels, with the same shares.

// Gives every item its partner and the share of its own, max(λ, 1 − λ) with λ from Beta(α, α). They
// depend on the seed, the epoch, the exam and the batch, never on micro-batches.
void draw_partners(std::span<BatchItem> items, const Dataset& dataset, double alpha,
                   std::uint64_t seed, std::uint64_t epoch);

// Beta(α, α) by Jöhnk's rejection (1964), for α from kMinMixup to kMaxMixup.
inline constexpr double kMinMixup = 0.01, kMaxMixup = 4;
double draw_beta(double alpha, CounterRandom& random);

// A fit minimises the losses of all targets of a cohort, with their weights.

// Sums of losses by target, with what each has to be divided by, so that parts add up.
struct LossSum {
  struct Part {
    double loss = 0, weight = 0;
  };
  std::vector<Part> targets;
  torch::Tensor on_device = {};  // of the first target, double: what a device adds to `targets`

  // Each target's mean loss over its labelled exams (or frames), and of these the mean over the
  // targets that have any; 0 when none has.
  double mean() const;  // waits for the device
  std::size_t labeled_targets() const;
  LossSum& operator+=(const LossSum& other);
  void add(const torch::Tensor& loss);  // to the first target's
};

struct ObjectiveOptions {
  LossOptions loss;
  double label_smoothing = 0;  // classes: this share of a label goes to all of them alike
  bool class_weights = false;  // every class counts the same, by the labels of the training part
};

// The outputs [C] of each exam of a batch; ordered, so that sums over it are.
using BatchOutputs = std::map<std::size_t, std::vector<double>>;
// Adds those of a part, [B, C] in its order, of targets of exams.
void add_outputs(BatchOutputs& all, const PackedBatch& part, const float* outputs,
                 std::size_t width);

class Objective {
 public:
  // `targets` must live on.
  Objective(const Targets& targets, const std::vector<std::size_t>& train,
            const ObjectiveOptions& options);

  // True where a loss is one of all exams of a batch, as Cox's is: before add() is given the parts
  // of a batch, couple() must be given the outputs of all of it.
  bool couples() const;
  void couple(const BatchOutputs& batch);

  // Gives a sum whose losses are 0, with what the losses over `items` are divided by.
  LossSum weights_of(std::span<const BatchItem> items) const;
  // Adds the losses of `batch` to those of `sum`. outputs: [B, C] in the batch's order (per-frame
  // targets: [N, C]); d_outputs receives the gradient of the mean loss of a batch with the weights
  // `total`, which may be `sum`.
  void add(const PackedBatch& batch, const float* outputs, const LossSum& total, LossSum& sum,
           float* d_outputs) const;
  // False where of() of these exams is the same whatever the outputs: none has a label, or of a Cox
  // loss no two can be compared.
  bool judges(const std::vector<std::size_t>& exams) const;
  // The losses of outputs [n, C] in the order of `exams` and their frames, of labels as they are
  // (without smoothing).
  LossSum of(std::span<const double> outputs, const std::vector<std::size_t>& exams) const;

  // True for the plain cross-entropy of one target of exams, which LibTorch computes where the
  // model is; the second is that loss, summed over the batch.
  bool is_cross_entropy() const;
  torch::Tensor cross_entropy(const torch::Tensor& outputs, const PackedBatch& batch) const;
  // What it is made of: an exam's class, and its weight, 0 without a label.
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

// Of outputs [B, C], summed over the batch. classes: [B] int64; weights: [B]
torch::Tensor cross_entropy_of(const torch::Tensor& outputs, const torch::Tensor& classes,
                               const torch::Tensor& weights);

// Stops when the validation part has not done better for a while. A plain value, so that a
// checkpoint can hold it.

// What early stopping compares: the higher figure, and of equal figures the lower loss.
enum class StoppingMetric {
  kLoss,    // figures are 0 throughout
  kMetric,  // see validation_figure()
};
inline const WordTable<StoppingMetric> kStoppingMetrics{{"loss", StoppingMetric::kLoss},
                                                        {"metric", StoppingMetric::kMetric}};

struct EarlyStop {
  std::size_t patience = 10;  // epochs without improvement after which to stop; 0 never stops
  bool blind = false;         // the validation part cannot tell epochs apart: the last one is kept

  double best_figure = -std::numeric_limits<double>::max();
  double best_loss = std::numeric_limits<double>::infinity();
  std::size_t best_epoch = 0;  // counted from 0, as are the calls of update()
  std::size_t epochs = 0;      // losses seen

  // True when this epoch, of finite numbers, is the best so far: keep these weights.
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

// The figure by which a target is judged, of a validation part: early stopping can watch it.

// The mean of main_metric() over the targets of which the validation part has one (AUROC needs two
// classes); empty when it has none.
std::optional<double> validation_figure(const Targets& targets, const Split& split,
                                        const std::vector<double>& outputs);

}  // namespace coldframe::temporal

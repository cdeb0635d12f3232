// One training step: the gradients of an effective batch, computed whole or in micro-batches with
// the same result.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/torch/graphs.h"
#include "train_temporal/fit/objective.h"
#include "train_temporal/fit/optimizer.h"
#include "train_temporal/models/device_draws.h"
#include "train_temporal/models/fused_gru.h"
#include "train_temporal/models/sequence_model.h"
#include "train_temporal/models/thread_team.h"

namespace coldframe::temporal {

// Adds the contribution of `items` to the gradients of a batch's mean loss to the model's
// gradients, and their losses to `sum`, which starts as Objective::weights_of() the whole batch. At
// most `micro_batch` exams go through the model at a time (0: all).
void accumulate_gradients(SequenceModel& model, const Dataset& dataset,
                          std::span<const BatchItem> items, const Objective& objective,
                          const Dropout& dropout, std::size_t micro_batch, LossSum& sum);

// The outputs of the same forward passes, without gradients. Objective::couple() needs them for the
// whole batch before the first backward pass.
BatchOutputs training_outputs(SequenceModel& model, const Dataset& dataset,
                              std::span<const BatchItem> items, const Dropout& dropout,
                              std::size_t micro_batch);

// accumulate_gradients() for a FusedGru: threads process slices of a micro-batch in parallel. The
// slices depend only on the micro-batch, so that results do not depend on the number of threads.

// A slice's weight gradients cost the same however few exams
// it has; four slices keep four cores busy.
inline constexpr std::size_t kExamsPerSlice = 8, kMaxSlices = 4;

class FusedStep {
 public:
  // `gradients`: [P], with the layout of the shared storage of the model's parameters.
  FusedStep(const SequenceModel& model, const ModelConfig& config, const Dataset& dataset,
            const torch::Tensor& gradients, ThreadTeam& team);

  // Computes the gradients of the mean loss over `items` as the sum of gradient_parts(), the first
  // of which is `gradients`. The other arguments are those of accumulate_gradients().
  LossSum compute(std::span<const BatchItem> items, const Objective& objective,
                  const Dropout& dropout, std::size_t micro_batch);
  // The corresponding training_outputs().
  BatchOutputs outputs(std::span<const BatchItem> items, const Dropout& dropout,
                       std::size_t micro_batch);
  std::span<float* const> gradient_parts() const { return parts_; }
  // Frees the memory of earlier steps, after an out-of-memory error.
  void release();

 private:
  struct Slice {
    explicit Slice(const FusedGru& model) : pass(model) {}

    FusedPass pass;
    PackedBatch batch;
    FusedGru::Gradients gradients;
    Buffer own_gradients, d_outputs;
    float* part = nullptr;
    bool written = false;  // in this step
    LossSum loss;
  };
  void add_slice();
  void run_slice(Slice& slice, std::span<const BatchItem> items, const Objective& objective,
                 const LossSum& total, const Dropout& dropout);

  const Dataset& dataset_;
  torch::Tensor gradients_;
  ThreadTeam& team_;
  FusedGru model_;
  std::vector<std::unique_ptr<Slice>> slices_;
  std::vector<float*> parts_;  // of the slices written in this step
};

// A whole training step as one function of memory at fixed addresses: gather, noise, network, loss,
// gradients, clipping, AdamW. A GPU records it once per batch length and replays it with one call
// (common/torch/graphs.h). Each kernel takes a few microseconds; launching them one by one would
// take several times as long as the computation.
//
// One copy transfers what differs between steps: rows, times and lengths of the batch, classes,
// weights, the starts of its random numbers, the learning rate. Batches are rectangular: exams are
// padded to one of a few lengths (padded_rows()), and the last batch of an epoch is filled up with
// exams of weight 0.

class RecordedStep {
 public:
  struct Fit {
    SequenceModel& model;
    const ModelConfig& config;
    const Dataset& dataset;  // its features: on the device, or of the current batch
    const Objective& objective;
    AdamW& optimizer;               // of the model only, with one rate
    std::size_t batch, max_frames;  // exams of a step; frames of an exam
    double clip;                    // as AdamW::clip_gradients() takes it
  };

  // True for networks that read forwards only (so that they do not see padding) and need no CPU
  // data within a pass: GRU, LSTM and frame pooling, without covariates or per-frame outputs, with
  // plain cross-entropy.
  static bool can_record(const ModelConfig& config, const Objective& objective);
  // With an empty `make`, steps are computed without recording.
  RecordedStep(const Fit& fit, MakeGraph make);

  // Runs one step with at most `batch` exams without mixup partners. Returns the weights of their
  // losses; take_losses() returns the losses. If memory runs out (is_out_of_memory()), the step has
  // had no effect.
  LossSum compute(std::vector<BatchItem> items, const Dropout& dropout, double learning_rate);
  // The losses since the last call, summed on the device, without synchronisation.
  LossSum take_losses();
  void release();  // the memory of all graphs

 private:
  // A graph and its inputs.
  struct Recorded {
    explicit Recorded(const MakeGraph& make) : recording(make) {}

    PackedBatch batch;                      // [T, B] rows; its tensors are views of `block`
    torch::Tensor block;                    // all inputs from the CPU, in one copy
    torch::Tensor starts;                   // [R] of StepDraws
    torch::Tensor classes, weights;         // [B]
    torch::Tensor learning_rate, gradient;  // scalars; gradient of the loss: 1 / sum of weights
    Recording recording;
  };
  void fill(Recorded& step, std::vector<BatchItem> items, std::size_t rows, const Dropout& dropout,
            double learning_rate, double total_weight);
  void run(const Recorded& step, const Dropout& dropout);

  const Fit fit_;
  const MakeGraph make_;
  const std::vector<torch::Tensor> parameters_;
  std::optional<StepDraws> draws_;
  std::map<std::size_t, Recorded> by_rows_;  // of an exam
  torch::Tensor losses_;                     // double
};

// Rounds up to 1, 2, 3, 4, 6, 8, 12, 16, 24, …, at most `most`.
std::size_t padded_rows(std::size_t frames, std::size_t most);

// The outputs of a model for whole exams, in micro-batches that fit into memory.

// The outputs for `exams` with all their frames, [n, C], at most `at_once` exams at a time. All
// threads of the team compute a GRU's outputs, with bit-identical results. A per-frame model has a
// row per present frame, in order of exams, then frames.
struct Prediction {
  const Dataset& dataset;
  const ModelConfig& config;
  std::uint64_t seed;  // of the fit: `shuffled` permutes frames here, too
  std::size_t at_once;
};
std::vector<double> predict_logits(SequenceModel& model, const Prediction& prediction,
                                   const std::vector<std::size_t>& exams, ThreadTeam& team);
// Preferred number of exams at a time if memory allows it.
std::size_t evaluation_size(const Dataset& dataset);

}  // namespace coldframe::temporal

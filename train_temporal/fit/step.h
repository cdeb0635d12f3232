// One step of training: gradients of an effective batch, whole or in micro-batches, with the same
// result.
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

// Adds what `items` give of the gradients of a batch's mean loss to those of the model, and their
// losses to `sum`, which begins as Objective::weights_of() the whole batch. At most `micro_batch`
// exams go through the model at a time (0: all).
void accumulate_gradients(SequenceModel& model, const Dataset& dataset,
                          std::span<const BatchItem> items, const Objective& objective,
                          const Dropout& dropout, std::size_t micro_batch, LossSum& sum);

// The outputs of the same forward passes, without gradients; Objective::couple() needs those of the
// whole batch before the first gradient.
BatchOutputs training_outputs(SequenceModel& model, const Dataset& dataset,
                              std::span<const BatchItem> items, const Dropout& dropout,
                              std::size_t micro_batch);

// accumulate_gradients() for a FusedGru: a micro-batch is cut into slices that threads work on
// side by side. The cut depends on the micro-batch alone, so that results do not depend on the
// number of threads.

// A slice's weight gradients cost the same however few exams
// it has; four slices keep four cores busy.
inline constexpr std::size_t kExamsPerSlice = 8, kMaxSlices = 4;

class FusedStep {
 public:
  // `gradients`: [P], laid out as the storage that the model's parameters share.
  FusedStep(const SequenceModel& model, const ModelConfig& config, const Dataset& dataset,
            const torch::Tensor& gradients, ThreadTeam& team);

  // Writes the gradients of the mean loss over `items`. They are the sum of gradient_parts(), whose
  // first is `gradients`. The other arguments are those of accumulate_gradients().
  LossSum compute(std::span<const BatchItem> items, const Objective& objective,
                  const Dropout& dropout, std::size_t micro_batch);
  // training_outputs() of the same.
  BatchOutputs outputs(std::span<const BatchItem> items, const Dropout& dropout,
                       std::size_t micro_batch);
  std::span<float* const> gradient_parts() const { return parts_; }
  // Gives the memory of all steps so far back; after running out of it.
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

// A whole training step as one function of memory that stays where it is: gather, noise, network,
// loss, gradients, clipping, AdamW. A GPU records it once for each length of a batch and replays it
// with one call (common/torch/graphs.h); each of its kernels takes a few microseconds, and starting
// them one by one takes several times as long as computing them.
//
// What differs between steps comes in one copy: rows, times and lengths of the batch, classes,
// weights, the starts of its random numbers, the learning rate. Batches become rectangles: exams
// are padded to one of few lengths (padded_rows()), and the last batch of an epoch is filled up
// with exams that weigh nothing.

class RecordedStep {
 public:
  struct Fit {
    SequenceModel& model;
    const ModelConfig& config;
    const Dataset& dataset;  // its features: on the device, or of the batch at hand
    const Objective& objective;
    AdamW& optimizer;               // of the model alone, at one rate
    std::size_t batch, max_frames;  // exams of a step; frames of an exam
    double clip;                    // as AdamW::clip_gradients() takes it
  };

  // True for networks that read forwards, so that padding is not seen, and get nothing that is
  // made on the CPU in the middle of a pass: GRU, LSTM and poolings of frames, without covariates
  // and outputs for frames; of losses, plain cross-entropy.
  static bool can_record(const ModelConfig& config, const Objective& objective);
  // An empty `make`: nothing is recorded, each step is computed.
  RecordedStep(const Fit& fit, MakeGraph make);

  // One step with at most `batch` exams without partners. Returns the weights of their losses,
  // which take_losses() has. Where memory runs out (is_out_of_memory()) the step has not been done.
  LossSum compute(std::vector<BatchItem> items, const Dropout& dropout, double learning_rate);
  // The losses since the last call, summed where they were computed; nothing waits.
  LossSum take_losses();
  void release();  // the memory of all graphs

 private:
  // What a graph reads, and the graph itself.
  struct Recorded {
    explicit Recorded(const MakeGraph& make) : recording(make) {}

    PackedBatch batch;                      // [T, B] rows; its tensors are views of `block`
    torch::Tensor block;                    // all that comes from the CPU, one copy
    torch::Tensor starts;                   // [R] of StepDraws
    torch::Tensor classes, weights;         // [B]
    torch::Tensor learning_rate, gradient;  // numbers; the latter of the loss, 1 / sum of weights
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

// The next of 1, 2, 3, 4, 6, 8, 12, 16, 24, …, but no more than `most`.
std::size_t padded_rows(std::size_t frames, std::size_t most);

// The outputs of a model for whole exams, in micro-batches that memory can hold.

// The outputs for `exams` with all their frames, [n, C], at most `at_once` of them at a time; a
// GRU's are computed by all threads of the team, to the same bits. A model of frames has a row for
// each, in the order of exams and, within, of their present frames.
struct Prediction {
  const Dataset& dataset;
  const ModelConfig& config;
  std::uint64_t seed;  // the fit's: `shuffled` permutes frames here too
  std::size_t at_once;
};
std::vector<double> predict_logits(SequenceModel& model, const Prediction& prediction,
                                   const std::vector<std::size_t>& exams, ThreadTeam& team);
// Exams at a time where memory allows it.
std::size_t evaluation_size(const Dataset& dataset);

}  // namespace coldframe::temporal

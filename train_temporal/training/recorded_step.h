// A whole training step as one function of memory that stays where it is: gather, noise, network,
// loss, gradients, clipping, AdamW. A GPU records it once for each length of a batch and replays it
// with one call (common/torch/graphs.h); each of its kernels takes a few microseconds, and starting
// them one by one takes several times as long as computing them.
//
// What differs between steps comes in one copy: rows, times and lengths of the batch, classes,
// weights, the starts of its random numbers, the learning rate. Batches become rectangles: exams
// are padded to one of few lengths (padded_rows()), and the last batch of an epoch is filled up
// with exams that weigh nothing.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <vector>

#include "common/torch/graphs.h"
#include "train_temporal/models/device_draws.h"
#include "train_temporal/models/sequence_model.h"
#include "train_temporal/training/objective/objective.h"
#include "train_temporal/training/optimizer.h"

namespace coldframe::temporal {

class RecordedStep {
 public:
  struct Fit {
    SequenceModel& model;
    const ModelConfig& config;
    const Dataset& dataset;  // its features: on the device, or of the batch at hand
    const Objective& objective;
    AdamW& optimizer;                // of the model alone, at one rate
    std::size_t batch, most_frames;  // exams of a step; frames of an exam
    double clip;                     // as AdamW::clip_gradients() takes it
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

}  // namespace coldframe::temporal

// The memory of a tuning fit besides the temporal model, and what remains of its budget for the
// ViT's step.
#pragma once

#include <cstdint>
#include <functional>

#include "train_temporal/fit/trainer.h"

namespace coldframe::temporal {

struct TuneMemory {
  std::uint64_t parameters = 0;       // trained ones, times the copies that the optimizer holds
  std::uint64_t rows = 0;             // of the cut: current and prefetched groups of exams
  std::uint64_t ahead = 0;            // max bytes for prefetching them; 0: unbounded
  std::uint64_t step = 0;             // for ViT and temporal model in a step; 0: unbounded
  MicroBatches micro_batches;         // of the temporal model
  std::int64_t frames = 0, exam = 0;  // max of a training step, and of an exam in it
};

// Depends only on shapes and the budgets in task.options.tune, so that a resumed fit computes in
// the same way. SystemError if nothing remains for the step.
TuneMemory plan_tuning(const FitTask& task);

// The bytes that the budgets leave for ViT and temporal model after `taken` bytes for the rest of
// the fit. SystemError if nothing remains.
std::uint64_t step_budget(const FitTask& task, std::uint64_t taken);

// True if the exams of a step may go through the ViT in micro-batches. A Cox loss and mixup couple
// them.
bool exams_go_in_turn(const FitOptions& options, const Objective& objective);

// The tuning options of all fits with these options, except the budget of a step.
tune::TuneOptions vit_options(const FitOptions& fit);
// The predicted peak memory of ViT and temporal model in a step, from the costs in
// task.options.tune; 0 for a fit without a ViT.
std::uint64_t predict_vit_step(const FitTask& task);
// A fit's ViT. `memory`: its plan.
std::unique_ptr<tune::TunedVit> make_vit(const FitTask& task, const TuneMemory& memory);

// Predicts the memory of a fit's tensors from shapes only, before anything is computed. In values
// of four bytes, with P parameters and D features:
//   once         6 P (parameters, gradients, moments, decay, the best), 4 D (statistics), and for
//                FusedGru the matrices twice again (transposed, for training and for evaluation)
//   each slice   as models/device_draws.h has it, and P beyond the first slice
//   evaluation   likewise, on each thread
// On CUDA, cuBLAS's workspaces (cuda_training_workspaces()) also count once. There cuDNN's reserve
// and workspace, tensors of _cudnn_rnn (ATen/native/cudnn/RNN.cpp), replace the activations of
// recurrent layers; whether they are as large has not been measured. Parameters and rows of a tuned
// fit (plan_tuning()) count once, too. Its ViT step is not counted; the temporal model is part of
// that step. The frames of b exams are taken as b times their mean number plus three standard
// deviations.
//
// Measuring a step instead is not always possible: `coldframe plan` asks for sizes that may fit no
// machine at hand, and a tuned fit's ViT shares a budget with the temporal model, which must be
// divided in the same way when the fit is resumed. If a prediction is too low, running out of
// memory reduces the micro-batch.

struct FitMemory {
  std::uint64_t fixed = 0;       // parameters and their optimizer state
  std::uint64_t training = 0;    // of the largest step
  std::uint64_t evaluation = 0;  // of the largest prediction, while the memory of training is held

  std::uint64_t total() const { return fixed + training + evaluation; }
};

// For the temporal model only, without parameters and rows of a tuned ViT.
FitMemory predict_model(const FitTask& task, const MicroBatches& micro_batches);
// Returns a function from the total number of frames in training to the bytes that autograd keeps
// of the temporal model. It may outlive `task`.
std::function<std::uint64_t(std::int64_t frames)> predict_head(const FitTask& task,
                                                               const MicroBatches& micro_batches);
// Does not count the dataset's features. May overestimate if few batches are drawn.
FitMemory predict_memory(const FitTask& task, const MicroBatches& micro_batches);

// Halves `micro_batches` until training and evaluation are predicted to fit into `available` bytes,
// or to exceed it by less than a tenth: then running out of memory decides.
MicroBatches micro_batches_that_fit(const FitTask& task, MicroBatches micro_batches,
                                    std::uint64_t available);

}  // namespace coldframe::temporal

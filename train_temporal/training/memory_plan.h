// The memory of a fit's tensors is predicted from shapes alone, before anything is computed. In
// values of four bytes, with P parameters and D features:
//   once         6 P (parameters, gradients, moments, decay, the best), 4 D (statistics), and for
//                FusedGru the matrices twice again (transposed, for training and for evaluation)
//   each slice   as models/step_values.h has it, and P beyond the first slice
//   evaluation   likewise, on each thread
// On CUDA cuBLAS's workspaces are once, too (cuda_training_workspaces()); there cuDNN's reserve and
// workspace, tensors of _cudnn_rnn (ATen/native/cudnn/RNN.cpp), stand for the activations of
// recurrent layers, and whether they are as large is not measured.
// Parameters and rows of a tuned fit (plan_tuning()) are once, too. Its ViT's step is not counted,
// and the temporal model is within that.
// Frames of b exams are b times their mean number and three standard deviations more.
//
// No step is measured instead, since some who ask cannot take one: `coldframe plan` asks for sizes
// that no machine at hand may hold, and a tuned fit's ViT shares a budget with the temporal model,
// which must go the same way when the fit is resumed. Where a prediction is too low, running
// out of memory cuts the micro-batch.
#pragma once

#include <cstdint>
#include <functional>

#include "train_temporal/training/trainer.h"

namespace coldframe::temporal {

struct FitMemory {
  std::uint64_t fixed = 0;       // parameters and what belongs to them
  std::uint64_t training = 0;    // of the largest step
  std::uint64_t evaluation = 0;  // of the largest prediction, while that of training stays

  std::uint64_t total() const { return fixed + training + evaluation; }
};

// The same for the temporal model alone, without parameters and rows of a tuned ViT.
FitMemory predict_model(const FitTask& task, const MicroBatches& micro_batches);
// Tells the bytes that autograd keeps of the temporal model when exams with `frames` frames in all
// train. It may outlive `task`.
std::function<std::uint64_t(std::int64_t frames)> predict_head(const FitTask& task,
                                                               const MicroBatches& micro_batches);
// The dataset's features are not counted. An overestimate is possible where few batches are drawn.
FitMemory predict_memory(const FitTask& task, const MicroBatches& micro_batches);

// The most exams at a time, by halves from those given, with which training and evaluation are
// predicted to fit into `available` bytes, or to miss it by less than a tenth: running out of
// memory decides then.
MicroBatches micro_batches_that_fit(const FitTask& task, MicroBatches micro_batches,
                                    std::uint64_t available);

}  // namespace coldframe::temporal

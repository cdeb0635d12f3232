// A tuned fit takes this beside the temporal model, and what of its budget is left to the ViT's
// step.
#pragma once

#include <cstdint>
#include <functional>

#include "train_temporal/fit/trainer.h"

namespace coldframe::temporal {

struct TuneMemory {
  std::uint64_t parameters = 0;  // trained ones, as often as the optimizer holds them
  std::uint64_t rows = 0;        // of the cut: the groups of exams that are at hand or read ahead
  std::uint64_t ahead = 0;       // what reading ahead may take of them; 0: nothing bounds it
  std::uint64_t step = 0;        // for ViT and temporal model in a step; 0: nothing bounds it
  MicroBatches micro_batches;    // of the temporal model
  std::int64_t frames = 0, exam = 0;  // of a training step, and of an exam in it, at most
};

// From shapes and the budgets in task.options.tune alone, so that a fit that is resumed computes
// in the same way. SystemError when nothing is left for the step.
TuneMemory plan_tuning(const FitTask& task);

// What the budgets leave to ViT and temporal model beside `taken` bytes for the rest of the fit.
// SystemError when nothing is left for it.
std::uint64_t step_budget(const FitTask& task, std::uint64_t taken);

// Whether exams of a step may go through the ViT one after another. A Cox loss and mixup couple
// them.
bool exams_go_in_turn(const FitOptions& options, const Objective& objective);

// What all fits of these options tune, and how, apart from the budget of a step.
tune::TuneOptions vit_options(const FitOptions& fit);
// The predicted peak of ViT and temporal model in a step, by the costs in task.options.tune; 0 for
// a fit without a ViT.
std::uint64_t predict_vit_step(const FitTask& task);
// A fit's ViT. `memory`: its plan.
std::unique_ptr<tune::TunedVit> make_vit(const FitTask& task, const TuneMemory& memory);

// The memory of a fit's tensors is predicted from shapes alone, before anything is computed. In
// values of four bytes, with P parameters and D features:
//   once         6 P (parameters, gradients, moments, decay, the best), 4 D (statistics), and for
//                FusedGru the matrices twice again (transposed, for training and for evaluation)
//   each slice   as models/device_draws.h has it, and P beyond the first slice
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

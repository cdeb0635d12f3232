// A tuned fit takes this beside the temporal model, and what of its budget is left to the ViT's
// step.
#pragma once

#include <cstdint>

#include "train_temporal/training/trainer.h"

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

}  // namespace coldframe::temporal

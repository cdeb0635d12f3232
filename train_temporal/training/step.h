// One step of training: gradients of an effective batch, whole or in micro-batches, with the same
// result.
#pragma once

#include <cstddef>
#include <span>

#include "train_temporal/models/sequence_model.h"
#include "train_temporal/training/objective/objective.h"

namespace coldframe::temporal {

// Adds the gradients of the mean loss over `items` to those of the model. At most `micro_batch`
// exams go through the model at a time (0: all).
LossSum accumulate_gradients(SequenceModel& model, const Dataset& dataset,
                             std::span<const BatchItem> items, const Objective& objective,
                             const Dropout& dropout, std::size_t micro_batch);

// The outputs of the same forward passes, without gradients; Objective::couple() needs those of the
// whole batch before the first gradient.
BatchOutputs training_outputs(SequenceModel& model, const Dataset& dataset,
                              std::span<const BatchItem> items, const Dropout& dropout,
                              std::size_t micro_batch);

}  // namespace coldframe::temporal

// One step of training: gradients of an effective batch, whole or in micro-batches, with the same
// result.
#pragma once

#include <cstddef>
#include <span>

#include "train_temporal/models/sequence_model.h"
#include "train_temporal/training/objective/objective.h"

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

}  // namespace coldframe::temporal

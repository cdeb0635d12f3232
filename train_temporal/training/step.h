// One step of training: gradients of an effective batch, whole or in micro-batches, with the same
// result.
#pragma once

#include <span>

#include "train_temporal/models/sequence_model.h"
#include "train_temporal/training/objective.h"
#include "train_temporal/training/share.h"

namespace coldframe::temporal {

// Adds the gradients of the mean loss over `items` to those of the model. At most `micro_batch`
// exams go through the model at a time (0: all). Of several processes each does its share.
LossSum accumulate_gradients(SequenceModel& model, const Dataset& dataset,
                             std::span<const BatchItem> items, const Objective& objective,
                             const Dropout& dropout, std::size_t micro_batch, Share share = {});

}  // namespace coldframe::temporal

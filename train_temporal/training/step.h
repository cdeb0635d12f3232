// One step of training: gradients of an effective batch, whole or in micro-batches, with the same
// result.
#pragma once

#include <cstddef>
#include <span>

#include "train_temporal/models/sequence_model.h"
#include "train_temporal/training/objective/objective.h"

namespace coldframe::temporal {

// Processes divide work into contiguous parts, in the order of ranks.
struct Share {
  std::size_t rank = 0, size = 1;

  std::size_t begin(std::size_t count) const { return count * rank / size; }
  std::size_t end(std::size_t count) const { return count * (rank + 1) / size; }
  template <typename T>
  std::span<T> of(std::span<T> all) const {
    return all.subspan(begin(all.size()), end(all.size()) - begin(all.size()));
  }
};

// Adds the gradients of the mean loss over `items` to those of the model. At most `micro_batch`
// exams go through the model at a time (0: all). Of several processes each does its share.
LossSum accumulate_gradients(SequenceModel& model, const Dataset& dataset,
                             std::span<const BatchItem> items, const Objective& objective,
                             const Dropout& dropout, std::size_t micro_batch, Share share = {});

// The outputs that the same differentiates, with their dropout and noise.
BatchOutputs training_outputs(SequenceModel& model, const Dataset& dataset,
                              std::span<const BatchItem> items, const Dropout& dropout,
                              std::size_t micro_batch);

}  // namespace coldframe::temporal

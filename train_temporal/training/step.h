// One step of training: gradients of an effective batch, whole or in micro-batches, with the same
// result.
#pragma once

#include <span>
#include <vector>

#include "train_temporal/models/sequence_model.h"

namespace coldframe::temporal {

// How much an exam of each class counts in the loss, [C].
using ClassWeights = std::vector<double>;
ClassWeights equal_weights(std::size_t classes);
// N / (C · N_c): each class counts the same as a whole. Counts from the training part alone.
ClassWeights balanced_weights(std::span<const int> labels, const std::vector<std::size_t>& exams,
                              std::size_t classes);

// A sum of losses with what it has to be divided by, so that parts add up.
struct LossSum {
  double loss = 0, weight = 0;

  double mean() const { return weight > 0 ? loss / weight : 0; }
  LossSum& operator+=(const LossSum& other);
};

// What the loss over `items` is divided by.
double total_weight(std::span<const BatchItem> items, std::span<const int> labels,
                    const ClassWeights& weights);

// Adds the gradients of the mean loss over `items` to those of the model. `labels` is indexed by
// exam; at most `micro_batch` exams go through the model at a time (0: all).
LossSum accumulate_gradients(SequenceModel& model, const Dataset& dataset,
                             std::span<const BatchItem> items, std::span<const int> labels,
                             const ClassWeights& weights, const Dropout& dropout,
                             std::size_t micro_batch);

// Cross-entropy of logits [n, C], given in the order of `exams`.
LossSum cross_entropy_sum(std::span<const double> logits, const std::vector<std::size_t>& exams,
                          std::span<const int> labels, const ClassWeights& weights);

}  // namespace coldframe::temporal

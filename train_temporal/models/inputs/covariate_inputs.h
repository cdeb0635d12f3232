// The covariates of exams (data/covariates.h) reach a model so: their K numbers stand behind the
// features of every frame, or a linear term of them is added to the outputs, which is what they
// would be to a linear head beside the pooled frames (late fusion). Any model takes them so.
#pragma once

#include "common/torch/tensor.h"
#include "train_temporal/data/batcher.h"
#include "train_temporal/models/sequence_model.h"

namespace coldframe::temporal {

// The term beside the head begins at 0 and learns at this multiple of the learning rate: each of
// its inputs stands alone, where an output moves by as many inputs as the pooled frames have. At 8
// the images of 120 exams were learnt by heart before the covariates were.
inline constexpr double kCovariateRate = 30;

// A row of K for each exam of a batch in its order, or for each frame that of its exam, rows
// `stride` apart; exams that are mixed have mixed covariates. table: [E, K]
void copy_covariates(const torch::Tensor& table, const PackedBatch& batch, bool per_frame,
                     float* out, std::int64_t stride);
torch::Tensor covariates_of(const torch::Tensor& table, const PackedBatch& batch, bool per_frame,
                            const torch::Device& device);

}  // namespace coldframe::temporal

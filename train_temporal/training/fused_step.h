// accumulate_gradients() for a FusedGru: a micro-batch is cut into slices that threads work on
// side by side. The cut depends on the micro-batch alone, so that results do not depend on the
// number of threads.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "train_temporal/models/fused/fused_gru.h"
#include "train_temporal/training/step.h"

namespace coldframe::temporal {

// A slice's weight gradients cost the same however few exams
// it has; four slices keep four cores busy.
inline constexpr std::size_t kExamsPerSlice = 8, kMostSlices = 4;

class FusedStep {
 public:
  // `gradients`: [P], laid out as the storage that the model's parameters share.
  FusedStep(const SequenceModel& model, const ModelConfig& config, const Dataset& dataset,
            const torch::Tensor& gradients, ThreadTeam& team);

  // Writes the gradients of the mean loss over `items`. They are the sum of gradient_parts(), whose
  // first is `gradients`. The other arguments are those of accumulate_gradients().
  LossSum compute(std::span<const BatchItem> items, const Objective& objective,
                  const Dropout& dropout, std::size_t micro_batch);
  // training_outputs() of the same.
  BatchOutputs outputs(std::span<const BatchItem> items, const Dropout& dropout,
                       std::size_t micro_batch);
  std::span<float* const> gradient_parts() const { return parts_; }
  // Gives the memory of all steps so far back; after running out of it.
  void release();

 private:
  struct Slice {
    explicit Slice(const FusedGru& model) : pass(model) {}

    FusedPass pass;
    PackedBatch batch;
    FusedGru::Gradients gradients;
    Buffer own_gradients, d_outputs;
    float* part = nullptr;
    bool written = false;  // in this step
    LossSum loss;
  };
  void add_slice();
  void run_slice(Slice& slice, std::span<const BatchItem> items, const Objective& objective,
                 const LossSum& total, const Dropout& dropout);

  const Dataset& dataset_;
  torch::Tensor gradients_;
  ThreadTeam& team_;
  FusedGru model_;
  std::vector<std::unique_ptr<Slice>> slices_;
  std::vector<float*> parts_;  // of the slices written in this step
};

}  // namespace coldframe::temporal

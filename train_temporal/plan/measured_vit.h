// Measures what steps take, on weights of random numbers: the counterpart of tune/costs.h.
#pragma once

#include <memory>
#include <vector>

#include "common/torch/tensor.h"
#include "train_temporal/tune/costs/costs.h"

namespace coldframe::plan {

// A ViT of random weights on a device. It counts memory by now (budget_device_memory()).
class MeasuredVit {
 public:
  MeasuredVit(const tune::ChainShape& shape, const torch::Device& device);
  ~MeasuredVit();

  // Runs every trained step of a chunk of frames by itself, without a graph, with one, and
  // backward; seconds are those of the faster of two forward passes.
  std::vector<tune::StepCost> steps(std::int64_t frames);
  // A chunk of frames by a schedule, forward and backward.
  tune::Use follow(const tune::Schedule& schedule, std::int64_t frames);
  // A whole step of TunedVit within so many bytes, of exams that may go in turn; its head apart.
  tune::Use step(std::uint64_t budget, std::int64_t exams, std::int64_t frames);

 private:
  class Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace coldframe::plan

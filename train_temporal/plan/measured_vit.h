// Runs steps of a ViT of random weights, to hold what is predicted of them against what they take.
#pragma once

#include <memory>

#include "common/torch/tensor.h"
#include "train_temporal/tune/measured_costs.h"

namespace coldframe::plan {

// A ViT of random weights on a device. It counts memory by now (budget_device_memory()).
class MeasuredVit {
 public:
  MeasuredVit(const tune::ChainShape& shape, std::shared_ptr<const tune::ChainCosts> costs,
              const torch::Device& device);
  ~MeasuredVit();

  // A chunk of frames by a schedule, forward and backward.
  tune::Use follow(const tune::Schedule& schedule, std::int64_t frames);
  // A whole step of TunedVit within so many bytes, of exams that may go in turn; its head apart.
  tune::Use step(std::uint64_t budget, std::int64_t exams, std::int64_t frames);

 private:
  class Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace coldframe::plan

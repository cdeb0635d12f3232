// Runs steps of a ViT of random weights, to hold what is predicted of them against what they take.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/torch/tensor.h"
#include "train_temporal/fit/tune/measured_costs.h"
#include "train_temporal/plan/plan.h"

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

// What whole steps on this machine take, beside what the plan says.

struct Measured {
  struct Peak {
    std::string schedule;
    std::uint64_t predicted = 0, measured = 0;  // bytes
    double predicted_seconds = 0, seconds = 0;
  };
  std::int64_t exams = 0, frames = 0;  // of a step; of an exam
  std::vector<Peak> peaks;
};

// The steps to run.
struct Steps {
  std::int64_t exams = 1, frames = 4;  // of a step; of an exam
  std::int64_t rounds = 3;             // of which times are the medians
  std::int64_t budgets = 0;            // so many from the smallest to all; 0: kShares of all
};

// Runs steps of a ViT of random weights on the query's machine, whatever the plan is for. A round
// runs each once, so that a slow moment of the machine meets all alike. The largest pass and step
// run once before, untimed.
Measured measure(const Query& query, const Trained& trained, const Steps& steps);

}  // namespace coldframe::plan

// What steps on this machine take, beside what the plan says.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/torch/tensor.h"
#include "train_temporal/plan/plan.h"

namespace coldframe::plan {

struct Measured {
  struct Peak {
    std::string schedule;
    std::uint64_t predicted = 0, measured = 0;  // bytes
    double predicted_seconds = 0, seconds = 0;
  };
  std::string device;                  // on which, by name
  bool cuda = false;                   // it is a GPU
  std::int64_t exams = 0, frames = 0;  // of a step; of an exam
  std::vector<std::string> names;
  std::vector<tune::StepCost> predicted, measured;  // of each step; seconds
  std::vector<Peak> peaks;
  double seconds_per_work = 0;  // of a machine that does as these steps did
};

// Runs steps of a ViT of random weights on `device`, which counts memory by now; what is predicted
// beside them is the device's, whatever the plan is for. A round runs everything once, so that a
// slow moment of the machine meets all ways alike; times are medians over the rounds. The largest
// pass and step run once before, untimed.
Measured measure(const Query& asked, const Trained& trained, const torch::Device& device,
                 std::int64_t exams, std::int64_t frames, std::int64_t rounds);

}  // namespace coldframe::plan

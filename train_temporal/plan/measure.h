// What whole steps on this machine take, beside what the plan says.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train_temporal/plan/plan.h"

namespace coldframe::plan {

struct Measured {
  struct Peak {
    std::string schedule;
    std::uint64_t predicted = 0, measured = 0;  // bytes
    double predicted_seconds = 0, seconds = 0;
  };
  std::int64_t exams = 0, frames = 0;  // of a step; of an exam
  std::vector<Peak> peaks;
};

// Runs steps of a ViT of random weights on the query's machine, whatever the plan is for. A round
// runs each once, so that a slow moment of the machine meets all alike; times are medians over the
// rounds. The largest pass and step run once before, untimed.
Measured measure(const Query& query, const Trained& trained, std::int64_t exams,
                 std::int64_t frames, std::int64_t rounds);

}  // namespace coldframe::plan

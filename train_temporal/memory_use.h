// What a run says of memory, in its report and in summary.json.
#pragma once

#include <cstdint>
#include <vector>

#include "train_temporal/cross_validation.h"
#include "train_temporal/report/report.h"

namespace coldframe::temporal {

struct MemoryUse {
  std::uint64_t peak = 0, budget = 0;  // bytes of tensors on the device; no budget: 0
  std::size_t batch = 0, at_once = 0;  // exams per step, and of these through the model at a time
};
MemoryUse memory_use(const std::vector<FinishedFit>& fits, const TrainOptions& options,
                     const torch::Device& device);

KeyValues to_facts(const MemoryUse& use);
Json to_json(const MemoryUse& use);

}  // namespace coldframe::temporal

// Measured and predicted memory of a run, as its report and summary.json state them.
#pragma once

#include <cstdint>
#include <vector>

#include "train_temporal/report/report.h"
#include "train_temporal/run/cross_validation.h"

namespace coldframe::temporal {

struct MemoryUse {
  std::uint64_t peak = 0, predicted = 0, budget = 0;  // bytes of tensors on it; no budget: 0
  std::uint64_t step_peak = 0, step_predicted = 0;    // of a tuned fit's step, above what it holds
  std::size_t batch = 0, at_once = 0;  // exams per step, and of these through the model at a time
};
MemoryUse memory_use(const std::vector<FinishedFit>& fits, const Experiment& experiment);

// Features and the fits that run side by side on a device, by predict_memory() and
// predict_vit_step(); under a budget after the cuts that it forces.
std::uint64_t predicted_peak(const Experiment& experiment);

// The weights of --tune, which all fits share.
std::uint64_t vit_tensors(const Experiment& experiment);

// Features and one fit with one exam at a time: less does not do.
std::uint64_t least_memory(const Experiment& experiment);

KeyValues to_facts(const MemoryUse& use);
Json to_json(const MemoryUse& use);

}  // namespace coldframe::temporal

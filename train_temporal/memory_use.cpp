#include "train_temporal/memory_use.h"

#include <algorithm>

#include "common/text.h"
#include "common/torch/device_memory.h"

namespace coldframe::temporal {

MemoryUse memory_use(const std::vector<FinishedFit>& fits, const TrainOptions& options,
                     const torch::Device& device) {
  const std::size_t batch = options.fit.batch;
  MemoryUse use{peak_device_memory(device), options.memory_budget, batch, batch};
  for (const FinishedFit& fit : fits)
    use.at_once = std::min(use.at_once, fit.record.pieces.training);
  return use;
}

KeyValues to_facts(const MemoryUse& use) {
  std::string tensors = concat(human_bytes(use.peak), " at most");
  if (use.budget > 0) {
    const double share = static_cast<double>(use.peak) / static_cast<double>(use.budget);
    tensors += concat(", of a budget of ", human_bytes(use.budget), ": headroom ",
                      fixed(100 * (1 - share), 0), " %");
  }
  KeyValues facts = {{"tensors on the device", tensors}};
  if (use.at_once < use.batch) {
    facts.emplace_back("exams at a time", concat(use.at_once, " of a batch of ", use.batch));
  }
  return facts;
}

Json to_json(const MemoryUse& use) {
  return {{"tensors_peak_bytes", use.peak},
          {"budget_bytes", use.budget},
          {"batch", use.batch},
          {"exams_at_a_time", use.at_once}};
}

}  // namespace coldframe::temporal

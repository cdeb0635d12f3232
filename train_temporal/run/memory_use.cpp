#include "train_temporal/run/memory_use.h"

#include <algorithm>

#include "common/text/text.h"
#include "common/torch/device_memory.h"
#include "train_temporal/training/memory_plan.h"

namespace coldframe::temporal {

namespace {

// Without a ViT's step, in which the temporal model is.
std::uint64_t predicted_fit(const FitTask& task, std::uint64_t budget, std::uint64_t features) {
  if (task.tuned != nullptr) return predict_memory(task, {1, 1}).fixed;
  MicroBatches micro_batches = first_micro_batches(task);
  if (budget > features) {
    const std::uint64_t fixed = predict_memory(task, micro_batches).fixed;
    const std::uint64_t left = budget - features;
    micro_batches = micro_batches_that_fit(task, micro_batches, left - std::min(left, fixed));
  }
  return predict_memory(task, micro_batches).total();
}

// The most that a fit of the run takes, as `memory` tells it.
template <typename Memory>
std::uint64_t most_of_fits(const Experiment& experiment, Memory memory) {
  const std::size_t settings = std::max<std::size_t>(experiment.settings.size(), 1);
  std::uint64_t most = 0;
  for (const std::string& model : experiment.options.models()) {
    for (const Split& split : experiment.splits) {
      const auto most_of = [&](std::size_t setting, const std::string& frame) {
        const FitName fit{model, split.repeat, split.fold, 0, setting, frame};
        most = std::max(most, memory(experiment.task(fit, split)));
      };
      for (std::size_t setting = 0; setting < settings; ++setting) most_of(setting, "");
      for (const std::string& frame : candidates(experiment, model)) most_of(0, frame);
    }
  }
  return most;
}

// The largest of all models, each on the first split.
std::uint64_t vit_step(const Experiment& experiment) {
  const Split& split = experiment.splits.front();
  std::uint64_t most = 0;
  for (const std::string& model : experiment.options.models())
    most = std::max(most,
                    predict_vit_step(experiment.task({model, split.repeat, split.fold, 0}, split)));
  return most;
}

}  // namespace

std::uint64_t vit_tensors(const Experiment& experiment) {
  std::uint64_t bytes = 0;
  if (experiment.tuned == nullptr) return bytes;
  for (const auto& [name, tensor] : experiment.tuned->tensors()) bytes += tensor.nbytes();
  return bytes;
}

std::uint64_t predicted_peak(const Experiment& experiment) {
  const FitPlan plan = plan_fits(experiment);
  const std::uint64_t features = experiment.dataset().loaded_bytes();
  const std::uint64_t most = most_of_fits(experiment, [&](FitTask task) {
    task.threads = plan.threads_per_fit;
    return predicted_fit(task, experiment.options.memory_budget, features);
  });
  return features + plan.on_a_device * (most + vit_step(experiment)) + vit_tensors(experiment);
}

std::uint64_t least_memory(const Experiment& experiment) {
  const std::uint64_t most = most_of_fits(experiment, [](const FitTask& task) {
    return predict_memory(task, {1, 1}).total();
  });
  return experiment.dataset().loaded_bytes() + most + vit_tensors(experiment);
}

MemoryUse memory_use(const std::vector<FinishedFit>& fits, const Experiment& experiment) {
  const std::size_t batch = experiment.options.fit.batch;
  MemoryUse use{peak_device_memory(experiment.device()),
                predicted_peak(experiment),
                experiment.options.memory_budget,
                0,
                vit_step(experiment),
                batch,
                batch};
  for (const FinishedFit& fit : fits)
    use.at_once = std::min(use.at_once, fit.record.micro_batches.training);
  for (const FinishedFit& fit : fits) use.step_peak = std::max(use.step_peak, fit.record.vit_peak);
  return use;
}

KeyValues to_facts(const MemoryUse& use) {
  std::string tensors =
      concat(human_bytes(use.peak), " at most, predicted ", human_bytes(use.predicted));
  if (use.budget > 0) {
    const double share = static_cast<double>(use.peak) / static_cast<double>(use.budget);
    tensors += concat(", of a budget of ", human_bytes(use.budget), ": headroom ",
                      fixed(100 * (1 - share), 0), " %");
  }
  KeyValues facts = {{"tensors on the device", tensors}};
  if (use.step_peak > 0)
    facts.emplace_back("of it a step of the ViT",
                       concat(human_bytes(use.step_peak), " at most, predicted ",
                              human_bytes(use.step_predicted)));
  if (use.at_once < use.batch) {
    facts.emplace_back("exams at a time", concat(use.at_once, " of a batch of ", use.batch));
  }
  return facts;
}

Json to_json(const MemoryUse& use) {
  Json json{{"tensors_peak_bytes", use.peak},
            {"tensors_predicted_bytes", use.predicted},
            {"budget_bytes", use.budget},
            {"batch", use.batch},
            {"exams_at_a_time", use.at_once}};
  if (use.step_peak > 0) {
    json["step_peak_bytes"] = use.step_peak;
    json["step_predicted_bytes"] = use.step_predicted;
  }
  return json;
}

}  // namespace coldframe::temporal

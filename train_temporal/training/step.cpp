#include "train_temporal/training/step.h"

#include <algorithm>

#include "common/torch/to_device.h"

namespace coldframe::temporal {
namespace {

// Takes the gradient of the loss, whose values are added to `sum`, back through the model.
void differentiate(const torch::Tensor& outputs, const PackedBatch& batch,
                   const Objective& objective, LossSum& sum) {
  if (objective.is_cross_entropy() && !batch.mixed()) {
    const torch::Tensor loss = objective.cross_entropy(outputs, batch);
    (loss / sum.targets[0].weight).backward();
    sum.add(loss);
    return;
  }
  const torch::Tensor values = outputs.detach().cpu().to(torch::kFloat32).contiguous();
  torch::Tensor gradient = torch::empty_like(values);
  objective.add(batch, values.const_data_ptr<float>(), sum, sum, gradient.data_ptr<float>());
  outputs.backward(to_device(gradient.to(outputs.scalar_type()), outputs.device()));
}

}  // namespace

void accumulate_gradients(SequenceModel& model, const Dataset& dataset,
                          std::span<const BatchItem> items, const Objective& objective,
                          const Dropout& dropout, std::size_t micro_batch, LossSum& sum) {
  const std::size_t size = micro_batch > 0 ? micro_batch : items.size();
  for (std::size_t start = 0; start < items.size(); start += size) {
    const auto part = items.subspan(start, std::min(size, items.size() - start));
    const PackedBatch batch = make_batch(dataset, {part.begin(), part.end()});
    differentiate(compute_logits(model, dataset, batch, dropout), batch, objective, sum);
  }
}

BatchOutputs training_outputs(SequenceModel& model, const Dataset& dataset,
                              std::span<const BatchItem> items, const Dropout& dropout,
                              std::size_t micro_batch) {
  const std::size_t size = micro_batch > 0 ? micro_batch : items.size();
  BatchOutputs all;
  for (std::size_t start = 0; start < items.size(); start += size) {
    const auto part = items.subspan(start, std::min(size, items.size() - start));
    const PackedBatch batch = make_batch(dataset, {part.begin(), part.end()});
    const torch::Tensor outputs =
        compute_logits(model, dataset, batch, dropout).detach().cpu().to(torch::kFloat32);
    add_outputs(all, batch, outputs.contiguous().const_data_ptr<float>(),
                static_cast<std::size_t>(outputs.size(1)));
  }
  return all;
}

}  // namespace coldframe::temporal

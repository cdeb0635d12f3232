#include "train_temporal/training/recorded_step.h"

#include <torch/csrc/autograd/autograd.h>

#include <algorithm>

#include "common/torch/to_device.h"

namespace coldframe::temporal {

std::size_t padded_rows(std::size_t frames, std::size_t most) {
  std::size_t rows = 1;
  while (rows < frames) rows = rows % 3 == 0 ? rows / 3 * 4 : std::max(rows * 3 / 2, rows + 1);
  return std::max(frames, std::min(rows, most));
}

bool RecordedStep::can_record(const ModelConfig& config, const Objective& objective) {
  const Architecture& architecture = *config.architecture;
  const bool forwards = architecture.recurrent ? !config.bidirectional : !architecture.ordered;
  return architecture.layers_over_frames != nullptr && forwards && !config.per_frame() &&
         config.covariates == 0 && objective.is_cross_entropy();
}

RecordedStep::RecordedStep(const Fit& fit, MakeGraph make)
    : fit_(fit),
      make_(std::move(make)),
      parameters_(fit.model.parameters()),
      losses_(torch::zeros({}, torch::device(fit.dataset.device).dtype(torch::kFloat64))) {}

LossSum RecordedStep::compute(std::vector<BatchItem> items, const Dropout& dropout,
                              double learning_rate) {
  const LossSum total = fit_.objective.weights_of(items);
  std::size_t longest = 0;
  for (const BatchItem& item : items) longest = std::max(longest, item.frames.features.size());
  const std::size_t rows = padded_rows(longest, fit_.most_frames);
  Recorded& step = by_rows_.try_emplace(rows, make_).first->second;
  if (!draws_) draws_.emplace(fit_.config, dropout, fit_.dataset.device);
  fill(step, std::move(items), rows, dropout, learning_rate, total.targets[0].weight);
  step.recording.run([&] { run(step, dropout.from(*draws_)); });
  fit_.optimizer.count_step();
  return total;
}

void RecordedStep::fill(Recorded& step, std::vector<BatchItem> items, std::size_t rows,
                        const Dropout& dropout, double learning_rate, double total_weight) {
  const std::size_t exams = items.size();
  const auto shortest = std::ranges::min_element(
      items, {}, [](const BatchItem& item) { return item.frames.features.size(); });
  items.resize(fit_.batch, BatchItem(*shortest));  // the sorted batch has these at its end
  PackedBatch& batch = step.batch;
  pack(fit_.dataset, std::move(items), batch, rows);
  std::vector<std::int64_t> classes;
  std::vector<float> weights;
  for (const std::size_t exam : batch.exams) {
    classes.push_back(fit_.objective.class_of(exam));
    weights.push_back(weights.size() < exams ? fit_.objective.weight_of(exam) : 0);
  }
  const std::vector<std::int64_t> starts = draws_->starts(dropout, batch);
  const float rate[] = {static_cast<float>(learning_rate)};
  const float gradient[] = {total_weight > 0 ? 1 / static_cast<float>(total_weight) : 0};

  Parcel parcel;
  add_tensors(fit_.dataset, batch, parcel);
  const std::int64_t size = batch.size();
  parcel.add<std::int64_t>(starts, {std::ssize(starts)}, step.starts);
  parcel.add<std::int64_t>(classes, {size}, step.classes);
  parcel.add<float>(weights, {size}, step.weights);
  parcel.add<float>(rate, {}, step.learning_rate);
  parcel.add<float>(gradient, {}, step.gradient);
  parcel.send(fit_.dataset.device, step.block);
}

void RecordedStep::run(const Recorded& step, const Dropout& dropout) {
  const PackedBatch& batch = step.batch;
  draws_->draw(step.starts, std::ssize(batch.frame_rows), batch.size());
  const torch::Tensor outputs = compute_logits(fit_.model, fit_.dataset, batch, dropout);
  const torch::Tensor loss = cross_entropy_of(outputs, step.classes, step.weights);
  const auto gradients = torch::autograd::grad({loss}, parameters_, {step.gradient});
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> flat;
  for (const torch::Tensor& gradient : gradients) flat.push_back(gradient.flatten());
  torch::Tensor all = fit_.optimizer.gradients();
  torch::cat_out(all, flat);
  fit_.optimizer.step_by_operations(step.learning_rate, fit_.clip);
  losses_.add_(loss);
  draws_->clear();  // their memory is the graphs'
}

void RecordedStep::release() {
  by_rows_.clear();
}

LossSum RecordedStep::take_losses() {
  LossSum sum;
  sum.on_device = losses_.clone();
  losses_.zero_();
  return sum;
}

}  // namespace coldframe::temporal

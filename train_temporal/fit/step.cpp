#include "train_temporal/fit/step.h"

#include <torch/csrc/autograd/autograd.h>
#include <algorithm>
#include <unordered_map>

#include "common/torch/to_device.h"
#include "train_temporal/models/fused_gru.h"

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

namespace {

std::size_t slice_count(std::size_t exams) {
  return std::clamp<std::size_t>(exams / kExamsPerSlice, 1, kMaxSlices);
}

std::span<const BatchItem> slice_of(std::span<const BatchItem> items, std::size_t slice,
                                    std::size_t count) {
  const std::size_t from = items.size() * slice / count, to = items.size() * (slice + 1) / count;
  return items.subspan(from, to - from);
}

}  // namespace

FusedStep::FusedStep(const SequenceModel& model, const ModelConfig& config, const Dataset& dataset,
                     const torch::Tensor& gradients, ThreadTeam& team)
    : dataset_(dataset), gradients_(gradients), team_(team), model_(model, config) {}

void FusedStep::add_slice() {
  auto slice = std::make_unique<Slice>(model_);
  slice->part = slices_.empty() ? gradients_.data_ptr<float>()
                                : slice->own_gradients.zeroed(gradients_.numel());
  slice->gradients = model_.gradients(slice->part);
  slices_.push_back(std::move(slice));
}

void FusedStep::release() {
  slices_.clear();
  parts_.clear();
}

LossSum FusedStep::compute(std::span<const BatchItem> items, const Objective& objective,
                           const Dropout& dropout, std::size_t micro_batch) {
  const LossSum total = objective.weights_of(items);
  LossSum sum = total;
  model_.prepare(team_);
  for (auto& slice : slices_) slice->written = false;
  const std::size_t size = micro_batch > 0 ? std::min(micro_batch, items.size()) : items.size();
  for (std::size_t start = 0; start < items.size(); start += size) {
    const auto part = items.subspan(start, std::min(size, items.size() - start));
    const std::size_t count = slice_count(part.size());
    while (slices_.size() < count) add_slice();
    team_.run(count, [&](std::size_t i) {
      run_slice(*slices_[i], slice_of(part, i, count), objective, total, dropout);
    });
    for (std::size_t i = 0; i < count; ++i) sum += slices_[i]->loss;
  }
  parts_.clear();
  for (const auto& slice : slices_) {
    if (slice->written) parts_.push_back(slice->part);
  }
  return sum;
}

BatchOutputs FusedStep::outputs(std::span<const BatchItem> items, const Dropout& dropout,
                                std::size_t micro_batch) {
  model_.prepare(team_);
  const std::size_t size = micro_batch > 0 ? std::min(micro_batch, items.size()) : items.size();
  const auto width = static_cast<std::size_t>(model_.config().outputs);
  BatchOutputs all;
  for (std::size_t start = 0; start < items.size(); start += size) {
    const auto part = items.subspan(start, std::min(size, items.size() - start));
    const std::size_t count = slice_count(part.size());
    while (slices_.size() < count) add_slice();
    std::vector<BatchOutputs> of(count);
    team_.run(count, [&](std::size_t i) {
      Slice& slice = *slices_[i];
      const auto own = slice_of(part, i, count);
      pack(dataset_, {own.begin(), own.end()}, slice.batch);
      add_outputs(of[i], slice.batch, slice.pass.forward(dataset_, slice.batch, dropout), width);
    });
    for (BatchOutputs& one : of) all.merge(one);
  }
  return all;
}

void FusedStep::run_slice(Slice& slice, std::span<const BatchItem> items,
                          const Objective& objective, const LossSum& total,
                          const Dropout& dropout) {
  PackedBatch& batch = slice.batch;
  pack(dataset_, {items.begin(), items.end()}, batch);
  const float* outputs = slice.pass.forward(dataset_, batch, dropout);
  float* d_outputs = slice.d_outputs.sized(model_.output_rows(batch) * model_.config().outputs);
  slice.loss.targets.assign(total.targets.size(), {});
  objective.add(batch, outputs, total, slice.loss, d_outputs);
  slice.pass.backward(batch, d_outputs, slice.gradients, !slice.written);
  slice.written = true;
}

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
  const std::size_t rows = padded_rows(longest, fit_.max_frames);
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

namespace {

// The exams of one micro-batch, with all their frames; `size`: of each.
std::vector<BatchItem> evaluation_items(const Prediction& prediction,
                                        const std::vector<std::size_t>& exams, std::size_t size,
                                        std::size_t number) {
  const FrameSampler sampler(prediction.config.order, 0, prediction.seed);
  const std::size_t start = number * size;
  std::vector<BatchItem> items;
  for (std::size_t i = start; i < std::min(start + size, exams.size()); ++i) {
    const Sequence& sequence = prediction.dataset.sequences[exams[i]];
    items.push_back({exams[i], sampler.for_evaluation(sequence.frames(), sequence.key)});
  }
  return items;
}

std::size_t divide_up(std::size_t count, std::size_t by) {
  return (count + by - 1) / by;
}

}  // namespace

// On the CPU small enough for the processor's cache; results are the same in any.
std::size_t evaluation_size(const Dataset& dataset) {
  return dataset.device.is_cpu() ? 64 : 256;
}

std::vector<double> predict_logits(SequenceModel& model, const Prediction& prediction,
                                   const std::vector<std::size_t>& exams, ThreadTeam& team) {
  torch::NoGradGuard no_grad;
  const Dataset& dataset = prediction.dataset;
  const auto classes = static_cast<std::size_t>(prediction.config.outputs);
  const bool is_fused = FusedGru::supports(model);
  // LibTorch divides the work within a micro-batch, the fused GRU's threads take whole ones.
  const std::size_t share = divide_up(exams.size(), is_fused ? team.threads() : 1);
  const std::size_t size = std::clamp<std::size_t>(share, 1, prediction.at_once);
  const std::size_t count = divide_up(exams.size(), size);
  const bool per_frame = prediction.config.per_frame();
  std::unordered_map<std::size_t, std::size_t> first_row;
  std::size_t rows = 0;
  for (std::size_t exam : exams) {
    first_row[exam] = rows;
    rows += per_frame ? static_cast<std::size_t>(dataset.sequences[exam].frames()) : 1;
  }
  std::vector<double> result(rows * classes);
  const auto keep = [&](const PackedBatch& batch, const float* values) {
    for_output_rows(batch, per_frame, [&](std::size_t exam, std::size_t row) {
      std::copy_n(values, classes,
                  result.begin() + std::ptrdiff_t((first_row.at(exam) + row) * classes));
      values += classes;
    });
  };
  if (!is_fused) {
    for (std::size_t number = 0; number < count; ++number) {
      const PackedBatch batch =
          make_batch(dataset, evaluation_items(prediction, exams, size, number));
      const torch::Tensor logits =
          compute_logits(model, dataset, batch).cpu().to(torch::kFloat32).contiguous();
      keep(batch, logits.data_ptr<float>());
    }
    return result;
  }
  FusedGru fused(model, prediction.config);
  fused.prepare(team);
  const std::size_t parts = std::min(team.threads(), count);
  team.run(parts, [&](std::size_t part) {
    FusedPass pass(fused);
    PackedBatch batch;
    for (std::size_t number = part; number < count; number += parts) {
      pack(dataset, evaluation_items(prediction, exams, size, number), batch);
      keep(batch, pass.forward(dataset, batch, Dropout()));
    }
  });
  return result;
}

}  // namespace coldframe::temporal

#include "train_temporal/training/fused_step.h"

#include <algorithm>

namespace coldframe::temporal {
namespace {

std::size_t slice_count(std::size_t exams) {
  return std::clamp<std::size_t>(exams / kExamsPerSlice, 1, kMostSlices);
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

}  // namespace coldframe::temporal

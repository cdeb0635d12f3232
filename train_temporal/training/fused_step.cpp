#include "train_temporal/training/fused_step.h"

#include <algorithm>

namespace coldframe::temporal {
namespace {

std::size_t shard_count(std::size_t exams) {
  return std::clamp<std::size_t>(exams / kExamsPerShard, 1, kMostShards);
}

std::span<const BatchItem> shard_of(std::span<const BatchItem> items, std::size_t shard,
                                    std::size_t count) {
  const std::size_t from = items.size() * shard / count, to = items.size() * (shard + 1) / count;
  return items.subspan(from, to - from);
}

}  // namespace

FusedStep::FusedStep(const SequenceModel& model, const ModelConfig& config, const Dataset& dataset,
                     const torch::Tensor& gradients, ThreadTeam& team)
    : dataset_(dataset), gradients_(gradients), team_(team), model_(model, config) {}

void FusedStep::add_shard() {
  auto shard = std::make_unique<Shard>(model_);
  shard->part = shards_.empty() ? gradients_.data_ptr<float>()
                                : shard->own_gradients.zeroed(gradients_.numel());
  shard->gradients = model_.gradients(shard->part);
  shards_.push_back(std::move(shard));
}

void FusedStep::release() {
  shards_.clear();
  parts_.clear();
}

LossSum FusedStep::compute(std::span<const BatchItem> items, const Objective& objective,
                           const Dropout& dropout, std::size_t micro_batch) {
  const LossSum total = objective.weights_of(items);
  LossSum sum = total;
  model_.prepare(team_);
  for (auto& shard : shards_) shard->written = false;
  const std::size_t piece = micro_batch > 0 ? std::min(micro_batch, items.size()) : items.size();
  for (std::size_t start = 0; start < items.size(); start += piece) {
    const auto part = items.subspan(start, std::min(piece, items.size() - start));
    const std::size_t count = shard_count(part.size());
    while (shards_.size() < count) add_shard();
    team_.run(count, [&](std::size_t i) {
      run_shard(*shards_[i], shard_of(part, i, count), objective, total, dropout);
    });
    for (std::size_t i = 0; i < count; ++i) sum += shards_[i]->loss;
  }
  parts_.clear();
  for (const auto& shard : shards_) {
    if (shard->written) parts_.push_back(shard->part);
  }
  return sum;
}

BatchOutputs FusedStep::outputs(std::span<const BatchItem> items, const Dropout& dropout,
                                std::size_t micro_batch) {
  model_.prepare(team_);
  const std::size_t piece = micro_batch > 0 ? std::min(micro_batch, items.size()) : items.size();
  const auto width = static_cast<std::size_t>(model_.config().outputs);
  BatchOutputs all;
  for (std::size_t start = 0; start < items.size(); start += piece) {
    const auto part = items.subspan(start, std::min(piece, items.size() - start));
    const std::size_t count = shard_count(part.size());
    while (shards_.size() < count) add_shard();
    std::vector<BatchOutputs> of(count);
    team_.run(count, [&](std::size_t i) {
      Shard& shard = *shards_[i];
      const auto own = shard_of(part, i, count);
      pack(dataset_, {own.begin(), own.end()}, shard.batch);
      add_outputs(of[i], shard.batch, shard.pass.forward(dataset_, shard.batch, dropout), width);
    });
    for (BatchOutputs& one : of) all.merge(one);
  }
  return all;
}

void FusedStep::run_shard(Shard& shard, std::span<const BatchItem> items,
                          const Objective& objective, const LossSum& total,
                          const Dropout& dropout) {
  PackedBatch& batch = shard.batch;
  pack(dataset_, {items.begin(), items.end()}, batch);
  const float* outputs = shard.pass.forward(dataset_, batch, dropout);
  float* d_outputs = shard.d_outputs.sized(model_.output_rows(batch) * model_.config().outputs);
  shard.loss.targets.assign(total.targets.size(), {});
  objective.add(batch, outputs, total, shard.loss, d_outputs);
  shard.pass.backward(batch, d_outputs, shard.gradients, !shard.written);
  shard.written = true;
}

}  // namespace coldframe::temporal

#include "train_temporal/training/fused_step.h"

#include <algorithm>

namespace coldframe::temporal {
namespace {

// More processes than that get a shard each, as long as there are exams; the sum then has more
// parts than that of one process.
std::size_t shard_count(std::size_t exams, std::size_t processes) {
  if (processes > kMostShards) return std::min(exams, processes);
  return std::clamp<std::size_t>(exams / kExamsPerShard, 1, kMostShards);
}

}  // namespace

FusedStep::FusedStep(const SequenceModel& model, const ModelConfig& config, const Dataset& dataset,
                     const torch::Tensor& gradients, ThreadTeam& team, Share share)
    : dataset_(dataset), gradients_(gradients), team_(team), share_(share), model_(model, config) {}

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
  // A process keeps its shards for all pieces, so that sums have one order.
  const std::size_t shards = shard_count(piece, share_.size);
  const std::size_t begin = share_.begin(shards), end = share_.end(shards);
  for (std::size_t start = 0; start < items.size(); start += piece) {
    const auto part = items.subspan(start, std::min(piece, items.size() - start));
    const std::size_t count = shard_count(part.size(), share_.size);
    const std::size_t own = std::min(end, count) - std::min(begin, count);
    while (shards_.size() < own) add_shard();
    team_.run(own, [&](std::size_t i) {
      const std::size_t shard = begin + i;
      const std::size_t from = part.size() * shard / count, to = part.size() * (shard + 1) / count;
      run_shard(*shards_[i], part.subspan(from, to - from), objective, total, dropout);
    });
    for (std::size_t i = 0; i < own; ++i) sum += shards_[i]->loss;
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
  const auto width = static_cast<std::size_t>(model_.config().classes);
  BatchOutputs all;
  for (std::size_t start = 0; start < items.size(); start += piece) {
    const auto part = items.subspan(start, std::min(piece, items.size() - start));
    const std::size_t count = shard_count(part.size(), 1);
    while (shards_.size() < count) add_shard();
    std::vector<BatchOutputs> of(count);
    team_.run(count, [&](std::size_t i) {
      Shard& shard = *shards_[i];
      const auto own = Share{i, count}.of(part);
      pack(dataset_, {own.begin(), own.end()}, shard.packing);
      add_outputs(of[i], shard.packing, shard.pass.forward(dataset_, shard.packing, dropout),
                  width);
    });
    for (BatchOutputs& one : of) all.merge(one);
  }
  return all;
}

void FusedStep::run_shard(Shard& shard, std::span<const BatchItem> items,
                          const Objective& objective, const LossSum& total,
                          const Dropout& dropout) {
  Packing& packing = shard.packing;
  pack(dataset_, {items.begin(), items.end()}, packing);
  const float* outputs = shard.pass.forward(dataset_, packing, dropout);
  float* d_outputs = shard.d_outputs.sized(model_.output_rows(packing) * model_.config().classes);
  shard.loss.targets.assign(total.targets.size(), {});
  objective.add(packing, outputs, total, shard.loss, d_outputs);
  shard.pass.backward(packing, d_outputs, shard.gradients, !shard.written);
  shard.written = true;
}

}  // namespace coldframe::temporal

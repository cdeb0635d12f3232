#include "train_temporal/training/fused_step.h"

#include <algorithm>
#include <cmath>

namespace coldframe::temporal {
namespace {

// Σ weight · (−log p of the true class) over a batch; d_logits receives its gradient, divided by
// the total weight.
double cross_entropy(const Packing& batch, std::span<const int> labels, const ClassWeights& weights,
                     double total_weight, const float* logits, float* d_logits) {
  const std::size_t classes = weights.size();
  double loss = 0;
  for (const std::size_t exam : batch.exams) {
    const auto label = static_cast<std::size_t>(labels[exam]);
    const auto highest = static_cast<double>(*std::max_element(logits, logits + classes));
    double exponentials = 0;
    for (std::size_t c = 0; c < classes; ++c) {
      exponentials += std::exp(static_cast<double>(logits[c]) - highest);
    }
    const double log_total = highest + std::log(exponentials);
    loss += weights[label] * (log_total - static_cast<double>(logits[label]));
    for (std::size_t c = 0; c < classes; ++c) {
      const double probability = std::exp(static_cast<double>(logits[c]) - log_total);
      const double error = probability - (c == label ? 1.0 : 0.0);
      d_logits[c] = static_cast<float>(weights[label] / total_weight * error);
    }
    logits += classes;
    d_logits += classes;
  }
  return loss;
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

LossSum FusedStep::compute(std::span<const BatchItem> items, std::span<const int> labels,
                           const ClassWeights& weights, const Dropout& dropout,
                           std::size_t micro_batch) {
  LossSum sum{0, total_weight(items, labels, weights)};
  const Loss loss{labels, weights, sum.weight};
  model_.prepare(team_);
  for (auto& shard : shards_) shard->written = false;
  const std::size_t piece = micro_batch > 0 ? micro_batch : items.size();
  for (std::size_t start = 0; start < items.size(); start += piece) {
    const auto part = items.subspan(start, std::min(piece, items.size() - start));
    const std::size_t count = std::clamp<std::size_t>(part.size() / kExamsPerShard, 1, kMostShards);
    while (shards_.size() < count) add_shard();
    team_.run(count, [&](std::size_t i) {
      const std::size_t from = part.size() * i / count, to = part.size() * (i + 1) / count;
      run_shard(*shards_[i], part.subspan(from, to - from), loss, dropout);
    });
    for (std::size_t i = 0; i < count; ++i) sum.loss += shards_[i]->loss;
  }
  parts_.clear();
  for (const auto& shard : shards_) {
    if (shard->written) parts_.push_back(shard->part);
  }
  return sum;
}

void FusedStep::run_shard(Shard& shard, std::span<const BatchItem> items, const Loss& loss,
                          const Dropout& dropout) {
  Packing& packing = shard.packing;
  pack(dataset_, {items.begin(), items.end()}, packing);
  const float* logits = shard.pass.forward(dataset_, packing, dropout);
  const auto classes = static_cast<std::int64_t>(loss.weights.size());
  float* d_logits = shard.d_logits.sized(packing.size() * classes);
  shard.loss =
      cross_entropy(packing, loss.labels, loss.weights, loss.total_weight, logits, d_logits);
  shard.pass.backward(packing, d_logits, shard.gradients, !shard.written);
  shard.written = true;
}

}  // namespace coldframe::temporal

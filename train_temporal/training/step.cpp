#include "train_temporal/training/step.h"

#include <algorithm>
#include <cmath>

namespace coldframe::temporal {
namespace {

// Sum over the batch of weight · (−log p of the true class).
torch::Tensor weighted_loss(const torch::Tensor& logits, const Batch& batch,
                            std::span<const int> labels, const ClassWeights& weights) {
  std::vector<std::int64_t> target;
  std::vector<float> weight;
  for (std::size_t exam : batch.exams) {
    target.push_back(labels[exam]);
    weight.push_back(static_cast<float>(weights[static_cast<std::size_t>(labels[exam])]));
  }
  const torch::Device device = logits.device();
  const torch::Tensor index = torch::tensor(target, torch::kInt64).to(device).unsqueeze(1);
  const torch::Tensor log_probability = logits.log_softmax(1).gather(1, index).squeeze(1);
  return -(log_probability * torch::tensor(weight).to(device)).sum();
}

}  // namespace

double total_weight(std::span<const BatchItem> items, std::span<const int> labels,
                    const ClassWeights& weights) {
  double total = 0;
  for (const BatchItem& item : items) total += weights[static_cast<std::size_t>(labels[item.exam])];
  return total;
}

ClassWeights equal_weights(std::size_t classes) {
  return ClassWeights(classes, 1.0);
}

ClassWeights balanced_weights(std::span<const int> labels, const std::vector<std::size_t>& exams,
                              std::size_t classes) {
  std::vector<double> count(classes, 0);
  for (std::size_t exam : exams) count[static_cast<std::size_t>(labels[exam])] += 1;
  ClassWeights weights;
  for (double n : count) {
    weights.push_back(static_cast<double>(exams.size()) /
                      (static_cast<double>(classes) * std::max(n, 1.0)));
  }
  return weights;
}

LossSum& LossSum::operator+=(const LossSum& other) {
  loss += other.loss;
  weight += other.weight;
  return *this;
}

LossSum accumulate_gradients(SequenceModel& model, const Dataset& dataset,
                             std::span<const BatchItem> items, std::span<const int> labels,
                             const ClassWeights& weights, const Dropout& dropout,
                             std::size_t micro_batch) {
  LossSum sum{0, total_weight(items, labels, weights)};
  const std::size_t piece = micro_batch > 0 ? micro_batch : items.size();
  for (std::size_t start = 0; start < items.size(); start += piece) {
    const auto part = items.subspan(start, std::min(piece, items.size() - start));
    const Batch batch = make_batch(dataset, {part.begin(), part.end()});
    const torch::Tensor logits = compute_logits(model, dataset, batch, dropout);
    const torch::Tensor loss = weighted_loss(logits, batch, labels, weights);
    (loss / sum.weight).backward();
    sum.loss += loss.item<double>();
  }
  return sum;
}

LossSum cross_entropy_sum(std::span<const double> logits, const std::vector<std::size_t>& exams,
                          std::span<const int> labels, const ClassWeights& weights) {
  LossSum sum;
  const std::size_t classes = weights.size();
  for (std::size_t i = 0; i < exams.size(); ++i) {
    const auto row = logits.subspan(i * classes, classes);
    const double highest = *std::max_element(row.begin(), row.end());
    double exponentials = 0;
    for (double logit : row) exponentials += std::exp(logit - highest);
    const auto label = static_cast<std::size_t>(labels[exams[i]]);
    sum.loss += weights[label] * (highest + std::log(exponentials) - row[label]);
    sum.weight += weights[label];
  }
  return sum;
}

}  // namespace coldframe::temporal

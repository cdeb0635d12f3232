#include "train_temporal/fit/objective.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "common/torch/to_device.h"
#include "train_temporal/evaluate/metric_table.h"
#include "train_temporal/labels/task_kind.h"

namespace coldframe::temporal {

double draw_beta(double alpha, CounterRandom& random) {
  for (;;) {
    const double x = std::pow(random.uniform(), 1 / alpha);
    const double y = std::pow(random.uniform(), 1 / alpha);
    if (x + y > 0 && x + y <= 1) return x / (x + y);
  }
}

void draw_partners(std::span<BatchItem> items, const Dataset& dataset, double alpha,
                   std::uint64_t seed, std::uint64_t epoch) {
  for (BatchItem& item : items) {
    CounterRandom random({seed, static_cast<std::uint64_t>(RandomPurpose::kMixup), epoch,
                          dataset.sequences[item.exam].key});
    const BatchItem& other = items[random.below(items.size())];
    const double share = draw_beta(alpha, random);
    item.partner =
        Partner{other.exam, other.frames.features, other.view, std::max(share, 1 - share)};
  }
}

namespace {

TargetLoss loss_of(const Labels& labels, const std::vector<std::size_t>& train,
                   const ObjectiveOptions& options, double smoothing) {
  ClassWeights weights = equal_weights(labels.classes.size());
  if (options.class_weights && !labels.classes.empty()) {
    std::vector<std::size_t> count(labels.classes.size(), 0);
    for (std::size_t exam : train) labels.count_strata(exam, count);
    weights = balanced_weights(count);
  }
  return {labels, options.loss, std::move(weights), readout_of(labels, train), smoothing};
}

}  // namespace

void add_outputs(BatchOutputs& all, const PackedBatch& part, const float* outputs,
                 std::size_t width) {
  for (const std::size_t exam : part.exams) {
    all[exam].assign(outputs, outputs + width);
    outputs += width;
  }
}

void LossSum::add(const torch::Tensor& loss) {
  if (loss.is_cpu()) {
    targets[0].loss += loss.item<double>();
    return;
  }
  const torch::Tensor wide = loss.detach().to(torch::kFloat64);
  on_device = on_device.defined() ? on_device + wide : wide;
}

double LossSum::mean() const {
  if (on_device.defined()) {
    LossSum settled{targets, {}};
    settled.add(on_device.cpu());
    return settled.mean();
  }
  double sum = 0;
  for (const TargetSum& part : targets) sum += part.weight > 0 ? part.loss / part.weight : 0;
  const std::size_t labeled = labeled_targets();
  return labeled > 1 ? sum / static_cast<double>(labeled) : sum;
}

std::size_t LossSum::labeled_targets() const {
  std::size_t count = 0;
  for (const TargetSum& part : targets) count += part.weight > 0;
  return count;
}

LossSum& LossSum::operator+=(const LossSum& other) {
  targets.resize(std::max(targets.size(), other.targets.size()));
  for (std::size_t t = 0; t < other.targets.size(); ++t) {
    targets[t].loss += other.targets[t].loss;
    targets[t].weight += other.targets[t].weight;
  }
  if (other.on_device.defined()) add(other.on_device);
  return *this;
}

Objective::Objective(const Targets& targets, const std::vector<std::size_t>& train,
                     const ObjectiveOptions& options)
    : targets_(targets), coupled_(targets.size()) {
  for (const Labels& labels : targets) {
    losses_.push_back(loss_of(labels, train, options, options.label_smoothing));
    plain_.push_back(loss_of(labels, train, options, 0));
  }
  if (!is_cross_entropy()) return;
  for (std::size_t exam = 0; exam < targets[0].value.size(); ++exam) {
    const double label = targets[0].at(exam, 0);
    class_of_.push_back(std::isnan(label) ? 0 : static_cast<std::int64_t>(label));
    weight_of_.push_back(static_cast<float>(losses_[0].weight(label)));
  }
  classes_ = torch::tensor(class_of_, torch::kInt64);
  weights_ = torch::tensor(weight_of_);
}

bool Objective::couples() const {
  return std::ranges::any_of(losses_, &TargetLoss::is_of_batch);
}

void Objective::couple(const BatchOutputs& batch) {
  for (std::size_t t = 0; t < losses_.size(); ++t) {
    if (!losses_[t].is_of_batch()) continue;
    std::vector<double> z, label;
    std::vector<std::size_t> exams;
    for (const auto& [exam, outputs] : batch) {
      const double own = targets_[t].at(exam, 0);
      if (std::isnan(own)) continue;
      z.push_back(outputs[targets_.first_output(t)]);
      label.push_back(own);
      exams.push_back(exam);
    }
    const BatchLoss all = losses_[t].of_batch(z, label);
    coupled_[t].clear();
    for (std::size_t i = 0; i < exams.size(); ++i)
      coupled_[t][exams[i]] = {all.loss[i], all.gradient[i]};
  }
}

LossSum Objective::weights_of(std::span<const BatchItem> items) const {
  LossSum sum{std::vector<LossSum::TargetSum>(losses_.size())};
  for (const BatchItem& item : items) {
    const std::size_t rows = targets_.per_frame() ? item.frames.features.size() : 1;
    for (std::size_t i = 0; i < rows; ++i) {
      const auto row = targets_.per_frame() ? static_cast<std::size_t>(item.frames.features[i]) : 0;
      for (std::size_t t = 0; t < losses_.size(); ++t) {
        const double own = losses_[t].weight(targets_[t].at(item.exam, row));
        const double share = item.partner ? item.partner->share : 1;
        sum.targets[t].weight += share * own;
        if (!item.partner) continue;
        sum.targets[t].weight +=
            (1 - share) * losses_[t].weight(targets_[t].at(item.partner->exam, 0));
      }
    }
  }
  return sum;
}

void Objective::add(const PackedBatch& batch, const float* outputs, const LossSum& total,
                    LossSum& sum, float* d_outputs) const {
  const auto labeled = static_cast<double>(total.labeled_targets());
  std::vector<double> z;
  std::vector<float> to_partner;
  std::size_t next = 0;
  for_output_rows(batch, targets_.per_frame(), [&](std::size_t exam, std::size_t row) {
    const std::size_t b = next++;  // the exam's place, where mixup is
    for (std::size_t t = 0; t < losses_.size(); ++t) {
      const std::size_t width = losses_[t].outputs();
      const double divisor = total.targets[t].weight * labeled;
      if (losses_[t].is_of_batch()) {
        const auto own = coupled_[t].find(exam);
        const bool counts = own != coupled_[t].end() && divisor > 0;
        *d_outputs++ = counts ? static_cast<float>(own->second.gradient / divisor) : 0.0f;
        sum.targets[t].loss += counts ? own->second.loss : 0;
        outputs += width;
        continue;
      }
      z.assign(outputs, outputs + width);
      double loss = losses_[t](z, targets_[t].at(exam, row), divisor, d_outputs);
      if (batch.mixed()) {
        to_partner.resize(width);
        const double other =
            losses_[t](z, targets_[t].at(batch.partners[b], 0), divisor, to_partner.data());
        const double share = batch.shares[b];
        loss = share * loss + (1 - share) * other;
        for (std::size_t c = 0; c < width; ++c) {
          d_outputs[c] = static_cast<float>(share * double(d_outputs[c]) +
                                            (1 - share) * double(to_partner[c]));
        }
      }
      sum.targets[t].loss += loss;
      outputs += width;
      d_outputs += width;
    }
  });
}

bool Objective::judges(const std::vector<std::size_t>& exams) const {
  for (std::size_t t = 0; t < losses_.size(); ++t) {
    std::vector<double> labels;
    for (std::size_t exam : exams)
      for (std::size_t row = 0; row < targets_.rows(exam); ++row)
        if (!std::isnan(targets_[t].at(exam, row))) labels.push_back(targets_[t].at(exam, row));
    if (!labels.empty() && !targets_[t].kind().is_blind(labels)) return true;
  }
  return false;
}

LossSum Objective::of(std::span<const double> outputs,
                      const std::vector<std::size_t>& exams) const {
  LossSum sum{std::vector<LossSum::TargetSum>(losses_.size())};
  std::vector<std::vector<double>> coupled(losses_.size()), labels(losses_.size());
  for (std::size_t exam : exams) {
    for (std::size_t row = 0; row < targets_.rows(exam); ++row) {
      for (std::size_t t = 0; t < losses_.size(); ++t) {
        const double value = targets_[t].at(exam, row);
        const auto z = outputs.first(losses_[t].outputs());
        outputs = outputs.subspan(z.size());
        sum.targets[t].weight += plain_[t].weight(value);
        if (!plain_[t].is_of_batch()) {
          sum.targets[t].loss += plain_[t](z, value, 1, nullptr);
        } else if (!std::isnan(value)) {
          coupled[t].push_back(z.front());
          labels[t].push_back(value);
        }
      }
    }
  }
  for (std::size_t t = 0; t < losses_.size(); ++t) {
    if (!plain_[t].is_of_batch()) continue;
    const std::vector<double> loss = plain_[t].of_batch(coupled[t], labels[t]).loss;
    const double all = std::accumulate(loss.begin(), loss.end(), 0.0);
    sum.targets[t].loss = std::max(all, 0.0);  // a logarithm of 1 may round to less
  }
  return sum;
}

bool Objective::is_cross_entropy() const {
  return losses_.size() == 1 && losses_.front().is_cross_entropy() && !targets_.per_frame();
}

torch::Tensor Objective::cross_entropy(const torch::Tensor& outputs,
                                       const PackedBatch& batch) const {
  classes_ = to_device(classes_, outputs.device());
  weights_ = to_device(weights_, outputs.device());
  const torch::Tensor& exams = batch.tensors.exams;
  return cross_entropy_of(outputs, classes_.index_select(0, exams),
                          weights_.index_select(0, exams));
}

torch::Tensor cross_entropy_of(const torch::Tensor& outputs, const torch::Tensor& classes,
                               const torch::Tensor& weights) {
  const torch::Tensor index = classes.unsqueeze(1);
  const torch::Tensor log_probability = outputs.log_softmax(1).gather(1, index).squeeze(1);
  return -(log_probability * weights).sum();
}

namespace {

// The validation part of one target in the form that metrics take, from the outputs [n, C] of all
// targets. Decides at 0.5 and without a temperature, since both are fitted only after the last
// epoch.
ScoredExams validation_rows(const Targets& targets, std::size_t target, const Split& split,
                            const std::vector<double>& outputs) {
  const Labels& labels = targets[target];
  const auto own =
      columns(outputs, targets.outputs(), targets.first_output(target), labels.outputs());
  const auto scores = scores_of(labels, readout_of(labels, split.train), own);
  return scored_rows(labels, split.validation, scores, decide(labels, scores, 0.5));
}

}  // namespace

std::optional<double> validation_figure(const Targets& targets, const Split& split,
                                        const std::vector<double>& outputs) {
  double sum = 0, count = 0;
  for (std::size_t t = 0; t < targets.size(); ++t) {
    const ScoredExams rows = validation_rows(targets, t, split, outputs);
    const MetricValue figure = compute_metric(main_metric(rows.scale), rows);
    if (!figure.defined()) continue;
    sum += figure.value;
    ++count;
  }
  if (count == 0) return {};
  return sum / count;
}

}  // namespace coldframe::temporal

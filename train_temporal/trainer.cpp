#include "train_temporal/trainer.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "common/error.h"
#include "common/text.h"

namespace coldframe::temporal {
namespace {

std::shared_ptr<SequenceModel> new_model(const FitTask& task) {
  auto model = make_model(task.config, task.seed);
  model->to(task.dataset.features.device());
  torch::NoGradGuard no_grad;
  model->set_statistics(input_statistics(task.dataset, task.split.train));
  return model;
}

ClassWeights class_weights(const FitTask& task) {
  const auto classes = static_cast<std::size_t>(task.config.classes);
  if (!task.options.class_weights) return equal_weights(classes);
  return balanced_weights(task.labels, task.split.train, classes);
}

}  // namespace

Trainer::Trainer(const FitTask& task)
    : task_(task),
      model_(new_model(task)),
      optimizer_(*model_, task.options.weight_decay),
      team_(std::make_unique<ThreadTeam>(task.threads)),
      sampler_(task.config.order, task.options.train_frames, task.seed),
      weights_(class_weights(task)),
      validation_(
          evaluation_batches(task.dataset, task.split.validation, task.config.order, task.seed)),
      best_parameters_(optimizer_.parameters().clone()) {
  early_stop_.patience = task.options.patience;
  if (!FusedGru::supports(*model_)) return;
  fused_ = std::make_unique<FusedStep>(*model_, task_.config, task_.dataset, optimizer_.gradients(),
                                       *team_);
}

bool Trainer::finished() const {
  return diverged_ || history_.size() >= task_.options.epochs || early_stop_.should_stop();
}

std::int64_t Trainer::steps_per_epoch() const {
  const std::size_t batch = task_.options.batch;
  return static_cast<std::int64_t>((task_.split.train.size() + batch - 1) / batch);
}

double Trainer::train_epoch(std::size_t epoch, double& learning_rate) {
  const FitOptions& options = task_.options;
  const std::int64_t steps = steps_per_epoch() * static_cast<std::int64_t>(options.epochs);
  const auto warmup = static_cast<std::int64_t>(std::ceil(options.warmup * double(steps)));
  const Dropout dropout(task_.config.dropout, task_.seed, epoch);
  const auto order = epoch_order(task_.split.train, task_.seed, epoch);
  LossSum total;
  for (std::size_t start = 0; start < order.size(); start += options.batch) {
    std::vector<BatchItem> items;
    for (std::size_t i = start; i < std::min(start + options.batch, order.size()); ++i) {
      const Sequence& sequence = task_.dataset.sequences[order[i]];
      items.push_back({order[i], sampler_.for_training(sequence.frames(), sequence.key, epoch)});
    }
    total += gradients(items, dropout);
    optimizer_.clip_gradients(options.clip, *team_,
                              fused_ ? fused_->gradient_parts() : std::span<float* const>());
    learning_rate = options.learning_rate *
                    schedule_factor(options.schedule, optimizer_.steps(), steps, warmup);
    optimizer_.step(learning_rate, *team_);
  }
  return total.mean();
}

LossSum Trainer::gradients(const std::vector<BatchItem>& items, const Dropout& dropout) {
  const std::size_t micro_batch = task_.options.micro_batch;
  if (fused_) return fused_->compute(items, task_.labels, weights_, dropout, micro_batch);
  optimizer_.zero_gradients();
  return accumulate_gradients(*model_, task_.dataset, items, task_.labels, weights_, dropout,
                              micro_batch);
}

void Trainer::run_epoch() {
  EpochLosses losses;
  losses.train = train_epoch(history_.size(), losses.learning_rate);
  const auto logits = predict_logits(*model_, task_.dataset, validation_, task_.split.validation,
                                     task_.config, *team_);
  losses.validation =
      cross_entropy_sum(logits, task_.split.validation, task_.labels, weights_).mean();
  diverged_ = !std::isfinite(losses.train) || !std::isfinite(losses.validation);
  if (diverged_) return;
  if (early_stop_.update(losses.validation)) best_parameters_.copy_(optimizer_.parameters());
  history_.push_back(losses);
}

FitResult Trainer::finish() {
  if (history_.empty()) {
    throw DataError(
        "the loss is not a finite number in the first epoch; lower --lr or look at the features "
        "with `coldframe cache stats`");
  }
  optimizer_.parameters().copy_(best_parameters_);
  const auto test =
      evaluation_batches(task_.dataset, task_.split.test, task_.config.order, task_.seed);
  FitResult result;
  result.model = model_;
  result.history = history_;
  result.diverged = diverged_;
  result.best_epoch = early_stop_.best_epoch;
  result.validation_logits = predict_logits(*model_, task_.dataset, validation_,
                                            task_.split.validation, task_.config, *team_);
  result.test_logits =
      predict_logits(*model_, task_.dataset, test, task_.split.test, task_.config, *team_);
  return result;
}

FitState Trainer::state() const {
  return {task_.seed,
          history_,
          early_stop_,
          optimizer_.steps(),
          optimizer_.parameters(),
          optimizer_.first_moment(),
          optimizer_.second_moment(),
          best_parameters_};
}

void Trainer::restore(const FitState& state) {
  if (state.seed != task_.seed || state.parameters.sizes() != optimizer_.parameters().sizes()) {
    throw DataError("the checkpoint belongs to another fit; start again with --overwrite");
  }
  history_ = state.history;
  early_stop_ = state.early_stop;
  early_stop_.patience = task_.options.patience;
  optimizer_.set_steps(state.steps);
  optimizer_.parameters().copy_(state.parameters);
  optimizer_.first_moment().copy_(state.first_moment);
  optimizer_.second_moment().copy_(state.second_moment);
  best_parameters_.copy_(state.best_parameters);
}

std::vector<Batch> evaluation_batches(const Dataset& dataset, const std::vector<std::size_t>& exams,
                                      FrameOrder order, std::uint64_t seed) {
  // On the CPU small enough for the cache; results are the same in any.
  const std::size_t size = dataset.features.is_cpu() ? 64 : 256;
  const FrameSampler sampler(order, 0, seed);
  std::vector<Batch> batches;
  for (std::size_t start = 0; start < exams.size(); start += size) {
    std::vector<BatchItem> items;
    for (std::size_t i = start; i < std::min(start + size, exams.size()); ++i) {
      const Sequence& sequence = dataset.sequences[exams[i]];
      items.push_back({exams[i], sampler.for_evaluation(sequence.frames(), sequence.key)});
    }
    batches.push_back(make_batch(dataset, std::move(items)));
  }
  return batches;
}

std::vector<double> predict_logits(SequenceModel& model, const Dataset& dataset,
                                   const std::vector<Batch>& batches,
                                   const std::vector<std::size_t>& exams, const ModelConfig& config,
                                   ThreadTeam& team) {
  torch::NoGradGuard no_grad;
  const auto classes = static_cast<std::size_t>(config.classes);
  std::unordered_map<std::size_t, std::size_t> position;
  for (std::size_t i = 0; i < exams.size(); ++i) position[exams[i]] = i;
  std::vector<double> result(exams.size() * classes);
  const auto keep = [&](const Batch& batch, const float* row) {
    for (std::size_t exam : batch.exams) {
      std::copy_n(row, classes, result.begin() + std::ptrdiff_t(position.at(exam) * classes));
      row += classes;
    }
  };
  if (!FusedGru::supports(model)) {
    for (const Batch& batch : batches) {
      const torch::Tensor logits =
          compute_logits(model, dataset, batch).cpu().to(torch::kFloat32).contiguous();
      keep(batch, logits.data_ptr<float>());
    }
    return result;
  }
  FusedGru fused(model, config);
  fused.prepare(team);
  const std::size_t parts = std::min(team.threads(), batches.size());
  team.run(parts, [&](std::size_t part) {
    FusedPass pass(fused);
    for (std::size_t i = part; i < batches.size(); i += parts) {
      keep(batches[i], pass.forward(dataset, batches[i], Dropout()));
    }
  });
  return result;
}

}  // namespace coldframe::temporal

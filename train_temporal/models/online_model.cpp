#include "train_temporal/models/online_model.h"

#include <cmath>
#include <limits>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "common/torch/precision.h"
#include "train_temporal/models/baseline_models.h"
#include "train_temporal/models/registry.h"

namespace coldframe::temporal {
namespace {

TemporalPool pool_of(const ModelConfig& config) {
  if (config.per_frame() || config.architecture->ordered) return config.pool;
  if (is_one_frame(config.order)) return TemporalPool::kLast;
  return config.architecture == &kMean ? TemporalPool::kMean : TemporalPool::kAttention;
}

torch::Tensor parameter(const SequenceModel& model, const std::string& name) {
  const auto parameters = model.named_parameters();
  const torch::Tensor* found = parameters.find(name);
  return found == nullptr ? torch::Tensor() : found->detach();
}

}  // namespace

std::optional<std::string> needs_whole_sequence(const ModelConfig& config) {
  if (config.bidirectional) return "it reads frames in both directions";
  if (const char* why = config.architecture->needs_whole_sequence) return why;
  if (config.order == FrameOrder::kShuffled) return "it reads frames in random order";
  if (config.order == FrameOrder::kMiddle) return "it reads the middle one of all frames";
  return std::nullopt;
}

OnlineModel::OnlineModel(SequenceModel& model, const ModelConfig& config)
    : model_(model),
      config_(config),
      head_(parameter(model, "head.weight")),
      head_bias_(parameter(model, "head.bias")),
      attention_(parameter(model, "attention.weight")),
      attention_bias_(parameter(model, "attention.bias")) {
  if (const auto why = needs_whole_sequence(config)) {
    const auto able = model_names([](const NamedModel& one) {
      return !one.twin && !one.bidirectional && !is_one_frame(one.order) &&
             one.architecture->needs_whole_sequence == nullptr;
    });
    throw ConfigError(concat("the model '", model_name(config), "' cannot go frame by frame: ",
                             *why, "; predict whole exams, or train ", join(able, ", ")));
  }
  restart();
}

void OnlineModel::restart() {
  state_.clear();
  frames_ = 0;
  sum_ = torch::zeros({1, head_.size(1)}, torch::kFloat64);
  weights_ = 0;
  highest_ = -std::numeric_limits<double>::infinity();
}

std::vector<double> OnlineModel::step(const torch::Tensor& features, double time_s) {
  const torch::InferenceMode guard;
  if (frames_ == 0) {
    first_time_ = time_s;
    last_time_ = std::numeric_limits<double>::quiet_NaN();
  }
  const bool first_alone = config_.order == FrameOrder::kFirst && frames_ > 0;
  auto row = time_row(time_s, first_time_, last_time_);
  last_time_ = time_s;
  ++frames_;
  torch::Tensor pooled = sum_;
  if (!first_alone) {
    const torch::Tensor time = torch::from_blob(row.data(), {1, kTimeColumns});
    pooled = pool(model_.step(features.unsqueeze(0), time, state_));
  }
  return doubles(at::linear(pooled.to(torch::kFloat32), head_, head_bias_));
}

torch::Tensor OnlineModel::pool(const torch::Tensor& frame) {
  const torch::Tensor exact = frame.to(torch::kFloat64);
  switch (pool_of(config_)) {
    case TemporalPool::kNone:
    case TemporalPool::kLast:
      return sum_ = exact;
    case TemporalPool::kMean:
      sum_ = sum_ + exact;
      return sum_ / static_cast<double>(frames_);
    case TemporalPool::kAttention: {
      const double score = at::linear(frame, attention_, attention_bias_).item<double>();
      const double highest = std::max(highest_, score);
      const double kept = std::exp(highest_ - highest), weight = std::exp(score - highest);
      highest_ = highest;
      weights_ = kept * weights_ + weight;
      sum_ = kept * sum_ + weight * exact;
      return sum_ / weights_;
    }
  }
  return {};
}

}  // namespace coldframe::temporal

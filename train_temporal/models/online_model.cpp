#include "train_temporal/models/online_model.h"

#include <limits>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "common/torch/precision.h"
#include "train_temporal/models/registry.h"

namespace coldframe::temporal {

std::optional<std::string> needs_whole_sequence(const ModelConfig& config) {
  if (config.bidirectional) return "it reads frames in both directions";
  if (const char* why = config.architecture->needs_whole_sequence) return why;
  if (config.inputs != Inputs::kLevel) return "it sees frames beside the first and the one before";
  if (config.order == FrameOrder::kShuffled) return "it reads frames in random order";
  if (config.order == FrameOrder::kMiddle) return "it reads the middle one of all frames";
  if (config.elapsed)
    return "it sees the time since a zero that exams share, which a clip does not bring (train "
           "--time intervals hides it)";
  return std::nullopt;
}

OnlineModel::OnlineModel(SequenceModel& model, const ModelConfig& config) : model_(model) {
  if (const auto why = needs_whole_sequence(config)) {
    const auto able = model_names([](const NamedModel& one) {
      return !one.twin && !one.bidirectional && !is_one_frame(one.order) &&
             one.architecture->needs_whole_sequence == nullptr;
    });
    throw ConfigError(concat("the model '", model_name(config), "' cannot go frame by frame: ",
                             *why, "; predict whole exams, or train ", join(able, ", ")));
  }
}

void OnlineModel::restart() {
  state_ = {};
}

std::vector<double> OnlineModel::step(const torch::Tensor& features, double time_s) {
  const torch::InferenceMode guard;
  if (state_.frames == 0) {
    first_time_ = time_s;
    last_time_ = std::numeric_limits<double>::quiet_NaN();
  }
  auto row = time_row(time_s, first_time_, last_time_, std::numeric_limits<double>::quiet_NaN());
  last_time_ = time_s;
  const torch::Tensor time = torch::from_blob(row.data(), {1, kTimeColumns});
  return doubles(model_.step(features.unsqueeze(0), time, state_));
}

}  // namespace coldframe::temporal

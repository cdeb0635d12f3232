#include "train_temporal/models/step_values.h"

#include <algorithm>

#include "train_temporal/models/baseline_models.h"
#include "train_temporal/models/gru_model.h"

namespace coldframe::temporal {
namespace {

// Values per frame, in units of H, that autograd keeps at the highest point of a step; measured
// with LibTorch 2.11. Of recurrent layers: once, and for each layer and direction.
constexpr double kMeanActivations = 4.8, kAttentionActivations = 5.8;
constexpr double kRecurrentActivations = 9.3, kLayerActivations = 7.4;

}  // namespace

StepValues::StepValues(const ModelConfig& config)
    : config_(config),
      D_(double(config.dimension)),
      H_(double(config.hidden)),
      C_(double(config.classes)),
      F_(double(config.clock_width)),
      L_(double(config.layers)),
      dirs_(config.bidirectional ? 2 : 1),
      W_(H_ * dirs_),
      I_(H_ + (config.time ? double(kTimeInputs) : 0)),
      gates_(config.architecture == ModelKind::kLstm ? 4 : 3) {}

double StepValues::parameters() const {
  if (config_.architecture == ModelKind::kClock) return kClockHidden * (F_ + C_);
  if (!is_recurrent(config_.architecture)) return D_ * H_ + H_ * H_ + H_ * C_;
  return D_ * H_ + W_ * C_ + dirs_ * gates_ * H_ * ((I_ + H_) + (L_ - 1) * (W_ + H_));
}

double StepValues::forward(double n, double b) const {
  return n * (D_ + I_ + 3 * H_ + W_ * L_ + 5 * H_ * L_ * dirs_) +
         b * (3 * H_ + H_ * L_ * dirs_ + W_ + C_);
}

double StepValues::backward(double n, double b) const {
  return n * (I_ + 4 * H_ + W_ * (2 * L_ - 1)) + b * (H_ + 3 * W_ + C_);
}

// The features are there three times as they are standardised, then twice.
double StepValues::by_autograd(double n, double b, bool keeps) const {
  if (config_.architecture == ModelKind::kClock)
    return (config_.per_frame() ? n : b) * (F_ + 3 * kClockHidden);
  const bool recurrent = is_recurrent(config_.architecture);
  const double layers = recurrent ? kRecurrentActivations + kLayerActivations * L_ * dirs_
                        : config_.architecture == ModelKind::kAttention ? kAttentionActivations
                                                                        : kMeanActivations;
  // Weights that every step of a layer uses get a gradient beside the one that it is added to.
  const double added = recurrent && keeps ? gates_ * H_ * ((L_ > 1 ? W_ : I_) + H_) : 0;
  return n * std::max(3 * D_, 2 * D_ + (keeps ? layers : layers / 3) * H_) + added;
}

}  // namespace coldframe::temporal

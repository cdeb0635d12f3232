#include "train_temporal/models/step_values.h"

#include <algorithm>

#include "train_temporal/models/baseline_models.h"
#include "train_temporal/models/inputs/covariate_inputs.h"
#include "train_temporal/models/ordered/gru_model.h"
#include "train_temporal/models/ordered/tcn_model.h"
#include "train_temporal/models/ordered/transformer_model.h"

namespace coldframe::temporal {
namespace {

// Streams that are weighed take these: of each stream and at all, while it is done, in training and
// in evaluation, and what training keeps of it. FrameInputs::weigh_streams() has so many tensors.
struct Gates {
  double each, once;
};
constexpr Gates kGates{8, 4}, kGatesKept{4, 3}, kGatesEvaluation{7, 4};

}  // namespace

StepValues::StepValues(const ModelConfig& config)
    : config_(config),
      D_(double(config.dimension)),
      H_(double(config.hidden)),
      C_(double(config.classes)),
      F_(double(config.clock_width)),
      L_(double(config.layers)),
      dirs_(config.architecture->recurrent && config.bidirectional ? 2 : 1),
      W_(H_ * dirs_),
      I_(double(ordered_inputs(config))),
      gates_(config.architecture == &kLstm ? 4 : 3) {}

double StepValues::parameters() const {
  if (config_.architecture == &kClock) {
    const double inputs = F_ + (config_.per_frame() ? double(kClockFrameInputs) : 0);
    return kClockHidden * (inputs + 1) + (kClockHidden + 1) * C_;
  }
  if (config_.architecture == &kCovariates) {
    const double inputs = double(config_.covariates);
    return (inputs + 1) * H_ + (H_ + 1) * C_;
  }
  // Each stream has a bias of its own: S · d + S are the D columns.
  const double projection = (config_.gated ? 2 * D_ : D_ + 1) * H_;
  const double around = projection + (W_ + 1) * C_;
  if (config_.architecture->ordered) return around + ordered_parameters();
  const double scores = config_.architecture == &kAttention ? H_ + 1 : 0;
  return around + scores + (config_.linear ? 0 : (H_ + 1) * H_);
}

double StepValues::ordered_parameters() const {
  const double beside = I_ - H_;  // what tells the time
  double count = config_.pool == TemporalPool::kAttention ? W_ + 1 : 0;
  if (config_.time && config_.time_encoding == TimeEncoding::kTime2Vec)
    count += 2 * kTime2VecInputs;
  if (config_.architecture == &kTransformer)
    return count + (beside > 0 ? (beside + 1) * H_ : 0) + L_ * (8 * H_ + 11) * H_ + 2 * H_;
  if (config_.architecture == &kTcn)
    return count + (beside > 0 ? (I_ + 1) * H_ : 0) + (kTcnTaps * I_ + 1) * H_ +
           (2 * L_ - 1) * (kTcnTaps * H_ + 1) * H_;
  if (config_.time && config_.time_encoding == TimeEncoding::kDecay) count += 2 * H_ * L_;
  return count + dirs_ * gates_ * H_ * ((I_ + H_ + 2) + (L_ - 1) * (W_ + H_ + 2));
}

double StepValues::forward(double n, double b) const {
  return n * (D_ + I_ + 3 * H_ + W_ * L_ + 5 * H_ * L_ * dirs_) +
         b * (3 * H_ + H_ * L_ * dirs_ + W_ + C_);
}

double StepValues::backward(double n, double b) const {
  return n * (I_ + 4 * H_ + W_ * (2 * L_ - 1)) + b * (H_ + 3 * W_ + C_);
}

// In units of H.
double StepValues::activations(double n, double padded, bool keeps) const {
  const bool decays =
      config_.time && config_.time_encoding == TimeEncoding::kDecay && config_.architecture->decays;
  const KeptValues& kept =
      decays ? config_.architecture->kept_decaying : config_.architecture->kept;
  if (!keeps && kept.evaluation > 0) return n * kept.evaluation + padded * kept.evaluation_grid;
  return (n * (kept.once + kept.by_layer * L_ * dirs_) + padded * kept.grid_by_layer * L_) /
         (keeps ? 1 : 3);
}

// The features are there three times as they are standardised, then twice (in evaluation of a
// transformer or TCN, once).
double StepValues::by_autograd(double n, double b, double longest, bool keeps) const {
  if (config_.architecture == &kClock)
    return (config_.per_frame() ? n : b) * (F_ + 3 * kClockHidden);
  if (config_.architecture == &kCovariates)
    return (config_.per_frame() ? n : b) * (double(config_.covariates) + 3 * H_);
  const bool recurrent = config_.architecture->recurrent;
  const bool once = !keeps && !recurrent && config_.architecture->ordered;
  const double padded = std::max(n, b * longest);
  const double copies = config_.only_stream >= 0 ? 1 : 0;
  const auto gates = [&](const Gates& one) {
    return config_.gated ? n * (one.each * double(std::ssize(config_.streams)) + one.once) : 0;
  };
  const double kept = keeps ? gates(kGatesKept) : 0;
  return std::max({(3 + copies) * n * D_,
                   2 * n * D_ + gates(keeps ? kGates : kGatesEvaluation) * H_,
                   (once ? 1 : 2) * n * D_ + (activations(n, padded, keeps) + kept) * H_}) +
         (keeps ? weights_beside() : 0);
}

// Weights that every step of a recurrent layer uses get a gradient beside the one that it is added
// to; a convolution's are kept in another order.
double StepValues::weights_beside() const {
  if (config_.architecture->recurrent) return gates_ * H_ * ((L_ > 1 ? W_ : I_) + H_);
  return config_.architecture == &kTcn ? 2 * L_ * kTcnTaps * H_ * H_ : 0;
}

}  // namespace coldframe::temporal

#include "train_temporal/models/step_values.h"

#include <algorithm>

#include "common/text/text.h"

namespace coldframe::temporal {
namespace {

// Streams that are weighed take these: of each stream and at all, while it is done, in training and
// in evaluation, and what training keeps of it. PackedFrames::weigh() has so many tensors.
struct Gates {
  double each, once;
};
constexpr Gates kGates{8, 4}, kGatesKept{4, 3}, kGatesEvaluation{7, 4};

}  // namespace

StepValues::StepValues(const ModelConfig& config)
    : config_(config),
      tensors_(tensors_of(config)),
      D_(double(config.dimension)),
      H_(double(config.hidden)),
      C_(double(config.outputs)),
      L_(double(config.layers)),
      dirs_(config.architecture->recurrent && config.bidirectional ? 2 : 1),
      W_(H_ * dirs_),
      I_(H_ + (config.time ? double(config.time_inputs()) : 0)) {}

double StepValues::parameters() const {
  if (!config_.architecture->by_steps) return (D_ + 1) * C_;
  double sum = 0;
  for (const TensorRow& row : tensors_) sum += row.is_buffer ? 0 : row.size();
  return sum;
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
  if (!config_.architecture->sees_frames) {
    const auto project = std::ranges::find(tensors_, "project.weight", &TensorRow::name);
    return (config_.per_frame() ? n : b) * double(project->shape[1] + 3 * project->shape[0]);
  }
  const double padded = std::max(n, b * longest);
  if (!config_.architecture->by_steps) return (2 * n + 3 * padded) * D_;
  const bool recurrent = config_.architecture->recurrent;
  const bool once = !keeps && !recurrent && config_.architecture->ordered;
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
  const std::string last = concat("_l", config_.layers - 1);
  if (!config_.architecture->by_steps) return (D_ + 1) * C_;
  double sum = 0;
  for (const TensorRow& row : tensors_) {
    const bool recurrent = config_.architecture->recurrent && row.name.ends_with(last) &&
                           row.name.find(".weight_") != std::string::npos;
    const bool convolves = row.shape.size() == 3 && row.shape.back() > 1;
    if (recurrent || convolves) sum += row.size();
  }
  return sum;
}

}  // namespace coldframe::temporal

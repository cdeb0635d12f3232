// Values that a step of a model keeps at its highest point, from shapes alone. With D features, H
// hidden, W = H or 2 H, I = H to H + 12 inputs, L layers, dirs directions and C outputs, b exams
// with n frames in all take
//   FusedGru, training    n (D + 2 I + 7 H + W L + 5 H L dirs + W (2 L − 1)) +
//                         b (4 H + H L dirs + 4 W + 2 C)
//   FusedGru, evaluation  n (D + I + 3 H + W L + 5 H L dirs) + b (3 H + H L dirs + W + C)
//   by autograd           n max(3 D, 2 D + a H), `a` measured; of a transformer what its attention
//                         keeps is counted by rows of [b, longest], the padded batch. S streams
//                         that are weighed keep 4 S + 3 more H, and take 2 D + (8 S + 4) H
//                         themselves
#pragma once

#include <vector>

#include "train_temporal/models/network/tensor_list.h"

namespace coldframe::temporal {

class StepValues {
 public:
  explicit StepValues(const ModelConfig& config);

  double parameters() const;
  // FusedGru's, of n frames of b exams; training takes both.
  double forward(double n, double b) const;
  double backward(double n, double b) const;
  // Autograd decides what stays. `longest`: frames of an exam. `keeps`: in training.
  double by_autograd(double n, double b, double longest, bool keeps) const;

 private:
  double activations(double n, double padded, bool keeps) const;
  double weights_beside() const;

  ModelConfig config_;
  std::vector<TensorRow> tensors_;
  double D_, H_, C_, L_, dirs_, W_, I_;
};

}  // namespace coldframe::temporal

// Integrated gradients (Sundararajan, Taly and Yan 2017, section 3) say how much each frame of an
// exam adds to what a model says of it, on the straight way from a baseline to the exam. The
// baseline is the training part's mean feature in every frame (zero, once standardised), at the
// exam's own times and covariates: what is explained is what the images say. The integral is taken
// by Gauss–Legendre quadrature with twice as many points until the contributions add up to the
// difference that they explain (the axiom of completeness).
#pragma once

#include <functional>
#include <vector>

#include "train_temporal/models/sequence_model.h"

namespace coldframe::temporal {

inline constexpr double kCompleteness = 1e-4;  // largest |Σ contributions − (output − baseline)|
inline constexpr std::size_t kFewestPoints = 16, kMostPoints = 512;

struct Contributions {
  std::vector<double> frames;       // of the exam's present frames; 0 where the model does not look
  double output = 0, baseline = 0;  // what the model says of the exam and of its baseline
  std::size_t points = 0;           // of the quadrature
  // [present frames, D], the mean gradient on the way: a frame's features, less the baseline's, add
  // up to its contribution with it. Undefined for a model that sees no features.
  torch::Tensor gradient = {};

  double gap() const;  // |Σ frames − (output − baseline)|
};

// Logits [B, C] → what is explained, [B]; differentiable.
using ExplainedOutput = std::function<torch::Tensor(const torch::Tensor& logits)>;

// `fit_seed`: of the model's fit; `shuffled` permutes frames with it.
Contributions integrated_gradients(SequenceModel& model, const Dataset& dataset,
                                   const ModelConfig& config, std::uint64_t fit_seed,
                                   std::size_t exam, const ExplainedOutput& output);

// Points and weights on [0, 1] (Press et al., Numerical Recipes, section 4.6: roots of the Legendre
// polynomial by Newton's method).
struct Quadrature {
  std::vector<double> points, weights;
};
Quadrature gauss_legendre(std::size_t points);

}  // namespace coldframe::temporal

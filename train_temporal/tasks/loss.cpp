#include "train_temporal/tasks/loss.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "train_temporal/tasks/logistic.h"
#include "train_temporal/tasks/survival.h"

namespace coldframe::temporal {
namespace {

struct NamedLoss {
  const char* name;
  LossKind kind;
  double standard;  // of its parameter; 0: it has none
};
constexpr std::array kLosses = {
    NamedLoss{"auto", LossKind::kAuto, 0}, NamedLoss{"focal", LossKind::kFocal, 2},
    NamedLoss{"mse", LossKind::kMse, 0}, NamedLoss{"huber", LossKind::kHuber, 1}};
constexpr double kLargestParameter = 1e6;

}  // namespace

LossOptions parse_loss(const std::string& text) {
  const std::size_t equals = text.find('=');
  for (const NamedLoss& loss : kLosses) {
    if (text.substr(0, equals) != loss.name) continue;
    LossOptions options{loss.kind, loss.standard};
    if (equals == std::string::npos) return options;
    const bool number = parse_double(text.substr(equals + 1), options.parameter);
    const double least = loss.kind == LossKind::kHuber ? 1e-6 : 0;
    if (loss.standard > 0 && number && options.parameter >= least &&
        options.parameter <= kLargestParameter) {
      return options;
    }
  }
  throw ConfigError(concat("--loss '", text,
                           "': expected auto, focal, focal=GAMMA (0 or more), mse, huber or "
                           "huber=DELTA (more than 0)"));
}

std::string to_string(const LossOptions& options) {
  const NamedLoss& loss = *std::ranges::find(kLosses, options.kind, &NamedLoss::kind);
  return loss.standard > 0 ? concat(loss.name, "=", options.parameter) : loss.name;
}

bool applies(const LossOptions& options, Task task) {
  switch (options.kind) {
    case LossKind::kAuto:
      return true;
    case LossKind::kFocal:
      return task == Task::kBinary || task == Task::kMulticlass;
    case LossKind::kMse:
    case LossKind::kHuber:
      break;
  }
  return task == Task::kRegression;
}

ClassWeights equal_weights(std::size_t classes) {
  return ClassWeights(classes, 1.0);
}

ClassWeights balanced_weights(std::span<const std::size_t> count) {
  double all = 0, classes = 0;
  for (std::size_t n : count) {
    all += static_cast<double>(n);
    classes += n > 0;
  }
  ClassWeights weights;
  for (std::size_t n : count) {
    weights.push_back(n > 0 ? all / (classes * static_cast<double>(n)) : 1.0);
  }
  return weights;
}

TargetLoss::TargetLoss(const Target& target, const LossOptions& options, ClassWeights weights,
                       const Readout& reading, double smoothing)
    : outputs_(target.outputs()),
      parameter_(options.parameter),
      smoothing_(smoothing),
      weights_(std::move(weights)),
      reading_(reading) {
  const bool asked = applies(options, target.task);
  switch (target.task) {
    case Task::kBinary:
    case Task::kMulticlass:
      form_ = asked && options.kind == LossKind::kFocal ? Form::kFocal : Form::kCrossEntropy;
      break;
    case Task::kOrdinal:
      form_ = Form::kOrdinal;
      break;
    case Task::kCox:
      form_ = Form::kCox;
      break;
    case Task::kHazards:
      form_ = Form::kHazards;
      break;
    case Task::kRegression:
      form_ = asked && options.kind == LossKind::kHuber ? Form::kHuber : Form::kMse;
      break;
  }
}

double TargetLoss::weight(double value) const {
  if (std::isnan(value)) return 0;
  if (form_ == Form::kCox) return has_event(value) ? 1 : 0;
  if (weights_.empty()) return 1;
  const auto label = static_cast<std::size_t>(value);
  if (form_ != Form::kOrdinal) return weights_[label];
  return weights_[label] * static_cast<double>(std::min(label + 1, outputs_));
}

double TargetLoss::operator()(std::span<const double> z, double value, double total,
                              float* gradient) const {
  if (std::isnan(value)) {
    if (gradient != nullptr) std::fill_n(gradient, outputs_, 0.0f);
    return 0;
  }
  if (form_ == Form::kHazards) return hazards_loss(z, value, reading_, total, gradient);
  if (weights_.empty()) {
    return of_number(z[0] - (value - reading_.mean) / reading_.deviation, total, gradient);
  }
  const auto label = static_cast<std::size_t>(value);
  if (form_ == Form::kOrdinal) return ordinal(z, label, total, gradient);
  return of_classes(z, label, total, gradient);
}

// Cross-entropy, whose label smoothing turns from 1_c into (1 − ε) 1_c + ε / C; or with the factor
// (1 − p)^γ in the focal form. With p that of the true class, the derivative by logit c of the
// latter is (γ (1 − p)^(γ−1) p log p − (1 − p)^γ) (1_c − p_c).
double TargetLoss::of_classes(std::span<const double> z, std::size_t label, double total,
                              float* gradient) const {
  const double highest = *std::max_element(z.begin(), z.end());
  double exponentials = 0;
  for (double logit : z) exponentials += std::exp(logit - highest);
  const double log_total = highest + std::log(exponentials);
  const double cross_entropy = log_total - z[label];
  double factor = 1, slope = 1;
  if (form_ == Form::kFocal) {
    double rest = 0;  // 1 − p, which is exact also where p rounds to 1
    for (std::size_t c = 0; c < z.size(); ++c) {
      if (c != label) rest += std::exp(z[c] - log_total);
    }
    factor = std::pow(rest, parameter_);
    slope = factor;
    if (rest > 0 && parameter_ > 0) {
      slope +=
          parameter_ * std::pow(rest, parameter_ - 1) * std::exp(-cross_entropy) * cross_entropy;
    }
  }
  const double spread = form_ == Form::kCrossEntropy ? smoothing_ : 0;
  const double to_each = spread / static_cast<double>(z.size());
  for (std::size_t c = 0; gradient != nullptr && c < z.size(); ++c) {
    const double wanted = to_each + (c == label ? 1 - spread : 0.0);
    gradient[c] =
        static_cast<float>(weights_[label] / total * slope * (std::exp(z[c] - log_total) - wanted));
  }
  double loss = (1 - spread) * factor * cross_entropy;
  for (std::size_t c = 0; spread > 0 && c < z.size(); ++c) loss += to_each * (log_total - z[c]);
  return weights_[label] * loss;
}

// Output k learns from the exams whose class is k or more whether it is more.
double TargetLoss::ordinal(std::span<const double> z, std::size_t label, double total,
                           float* gradient) const {
  double loss = 0;
  for (std::size_t k = 0; k < z.size(); ++k) {
    const double more = label > k ? 1.0 : 0.0;
    const double asked = label >= k ? weights_[label] : 0.0;
    loss += asked * (softplus(z[k]) - more * z[k]);
    if (gradient != nullptr) {
      gradient[k] = static_cast<float>(asked / total * (1 / (1 + std::exp(-z[k])) - more));
    }
  }
  return loss;
}

double TargetLoss::of_number(double error, double total, float* gradient) const {
  const double size = std::abs(error);
  const bool far = form_ == Form::kHuber && size > parameter_;
  const double scale = form_ == Form::kHuber ? 0.5 : 1.0;
  if (gradient != nullptr) {
    const double slope = far ? std::copysign(parameter_, error) : 2 * scale * error;
    *gradient = static_cast<float>(slope / total);
  }
  return far ? parameter_ * (size - 0.5 * parameter_) : scale * error * error;
}

}  // namespace coldframe::temporal

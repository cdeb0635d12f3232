#include "train_temporal/labels/task_kind.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "train_temporal/labels/cox.h"

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
  return kind_of(task).takes(options.kind);
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
                       const Readout& readout, double smoothing)
    : outputs_(target.outputs()), weights_(weights) {
  const LossOptions own = applies(options, target.task) ? options : LossOptions{};
  of_row_ = target.kind().loss(target, {own, std::move(weights), readout, smoothing});
}

bool TargetLoss::is_cross_entropy() const {
  return of_row_->is_cross_entropy();
}

bool TargetLoss::is_of_batch() const {
  return of_row_->is_of_batch();
}

BatchLoss TargetLoss::of_batch(std::span<const double> z, std::span<const double> label) const {
  return of_row_->of_batch(z, label);
}

double TargetLoss::weight(double value) const {
  return std::isnan(value) ? 0 : of_row_->weight(value);
}

double TargetLoss::operator()(std::span<const double> z, double value, double total,
                              float* gradient) const {
  if (!std::isnan(value)) return (*of_row_)(z, value, total, gradient);
  if (gradient != nullptr) std::fill_n(gradient, outputs_, 0.0f);
  return 0;
}

namespace {

double logistic_loss(const RowLabels& labels, std::span<const double> z,
                     std::span<double> gradient) {
  double sum = 0;
  for (std::size_t i = 0; i < z.size(); ++i) {
    const double label = labels.value[i];
    gradient[i] = 0;
    if (std::isnan(label)) continue;
    sum += softplus(z[i]) - label * z[i];
    gradient[i] = logistic(z[i]) - label;
  }
  return sum;
}

double softmax_loss(const RowLabels& labels, std::span<const double> z,
                    std::span<double> gradient) {
  const std::size_t width = labels.outputs;
  double sum = 0;
  for (std::size_t row = 0; row < labels.value.size(); ++row) {
    const auto own = z.subspan(row * width, width);
    const auto slope = gradient.subspan(row * width, width);
    const double highest = *std::ranges::max_element(own);
    double total = 0;
    for (std::size_t c = 0; c < width; ++c) total += slope[c] = std::exp(own[c] - highest);
    for (double& each : slope) each /= total;
    const auto label = static_cast<std::size_t>(labels.value[row]);
    slope[label] -= 1;
    sum += std::log(total) + highest - own[label];
  }
  return sum;
}

double squares(const RowLabels& labels, std::span<const double> z, std::span<double> gradient) {
  double sum = 0;
  for (std::size_t i = 0; i < z.size(); ++i) {
    gradient[i] = std::isnan(labels.value[i]) ? 0 : z[i] - labels.value[i];
    sum += gradient[i] * gradient[i] / 2;
  }
  return sum;
}

double cox(const RowLabels& labels, std::span<const double> z, std::span<double> gradient) {
  const BatchLoss all = cox_loss(z, labels.value);
  std::ranges::copy(all.gradient, gradient.begin());
  return std::accumulate(all.loss.begin(), all.loss.end(), 0.0);
}

}  // namespace

RowLabels RowLabels::at(const std::vector<std::size_t>& rows) const {
  RowLabels part{loss, outputs};
  for (const std::size_t row : rows)
    for (std::size_t i = 0; i < width(); ++i) part.value.push_back(value[row * width() + i]);
  return part;
}

double RowLabels::curvature() const {
  constexpr double kLeast = 0.02;
  double sum = 0, count = 0;
  switch (loss) {
    case Loss::kSquares:
      return 1;
    case Loss::kSoftmax:
      return 1 / static_cast<double>(outputs) * (1 - 1 / static_cast<double>(outputs));
    case Loss::kLogistic:
      for (const double label : value)
        if (!std::isnan(label)) sum += label, count += 1;
      break;
    case Loss::kCox:
      for (const double label : value) sum += has_event(label), count += 1;
      return std::max(sum / std::max(count, 1.0), kLeast);
  }
  const double share = sum / std::max(count, 1.0);
  return std::max(share * (1 - share), kLeast);
}

double loss_of(const RowLabels& labels, std::span<const double> z, std::span<double> gradient) {
  switch (labels.loss) {
    case RowLabels::Loss::kLogistic:
      return logistic_loss(labels, z, gradient);
    case RowLabels::Loss::kSoftmax:
      return softmax_loss(labels, z, gradient);
    case RowLabels::Loss::kSquares:
      return squares(labels, z, gradient);
    case RowLabels::Loss::kCox:
      break;
  }
  return cox(labels, z, gradient);
}

}  // namespace coldframe::temporal

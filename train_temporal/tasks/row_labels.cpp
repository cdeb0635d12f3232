#include "train_temporal/tasks/row_labels.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "train_temporal/tasks/logistic.h"
#include "train_temporal/tasks/survival.h"

namespace coldframe::temporal {
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

#include "train_temporal/ridge/linear_fit.h"

#include <algorithm>
#include <boost/math/tools/minima.hpp>
#include <cmath>
#include <limits>

#include "common/torch/precision.h"
#include "train_temporal/ridge/discriminants.h"

namespace coldframe::temporal {
namespace {

// The best of `fit(penalty)`, from the strongest on, by half powers of ten of `unit`. A path that
// gets worse three times in a row has passed its best.
template <typename Fit>
LinearFit best_on_path(double unit, Fit fit) {
  constexpr int kStrongest = 4, kWeakest = -6, kPatience = 3;
  LinearFit best;
  int worse = 0;
  for (int power = kStrongest; power >= kWeakest && worse < kPatience; --power) {
    LinearFit found = fit(std::max(unit, 1e-6) * std::pow(10.0, power / 2.0));
    ++worse;
    if (!(found.loss < best.loss)) continue;
    best = std::move(found);
    worse = 0;
  }
  return best;
}

// The loss of predictions, whose slope nobody asks for.
double loss_at(const RowLabels& labels, const std::vector<double>& z) {
  std::vector<double> unused(z.size());
  return loss_of(labels, z, unused);
}

LinearFit choose_ridge(const PrincipalAxes& x, const RowLabels& labels, const RowFolds& folds) {
  torch::Tensor coefficients;
  return best_on_path(x.features(), [&](double penalty) {
    coefficients = fit_without_folds(x, labels, folds, penalty, coefficients);
    const std::vector<double> z = doubles(x.rows.mm(coefficients));  // [n, K · C]
    LinearFit fit{penalty};
    for (std::size_t row = 0; row < folds.of_row.size(); ++row) {
      const std::size_t from = (row * folds.count + folds.of_row[row]) * labels.outputs;
      fit.held_out.insert(fit.held_out.end(), &z[from], &z[from] + labels.outputs);
    }
    fit.loss = loss_at(labels, fit.held_out);
    return fit;
  });
}

torch::Tensor on_axes(const PrincipalAxes& x) {  // [n, r]
  return x.rows.narrow(1, 0, x.axes.size(1));
}

// Discriminants of the other folds' rows.
struct HeldOutFold {
  torch::Tensor rows;  // [m] their places
  torch::Tensor x;     // [m, r + 1]
  Discriminants fit;
};

std::vector<HeldOutFold> without_each(const PrincipalAxes& x, const RowLabels& labels,
                                      const RowFolds& folds) {
  std::vector<HeldOutFold> parts;
  for (std::size_t k = 0; k < folds.count; ++k) {
    const std::vector<std::size_t> others = folds.other_rows(k);
    const torch::Tensor own = index_of(folds.rows(k));
    parts.push_back(
        {own, x.rows.index_select(0, own),
         Discriminants(on_axes(x).index_select(0, index_of(others)), labels.at(others))});
  }
  return parts;
}

// The discriminants d [n, C] are multiplied by what makes d · multiple + log π predict best.
LinearFit with_best_multiple(const RowLabels& labels, double penalty, const torch::Tensor& d,
                             const torch::Tensor& log_shares) {
  constexpr double kLeast = -7, kMost = 2;  // of its logarithm
  constexpr int kBits = 16;
  const auto predictions = [&](double log_multiple) {
    return doubles(d * std::exp(log_multiple) + log_shares);
  };
  const auto [log_multiple, loss] = boost::math::tools::brent_find_minima(
      [&](double at) { return loss_at(labels, predictions(at)); }, kLeast, kMost, kBits);
  return {penalty, std::exp(log_multiple), loss, predictions(log_multiple)};
}

LinearFit choose_discriminants(const PrincipalAxes& x, const RowLabels& labels,
                               const RowFolds& folds) {
  const std::vector<HeldOutFold> parts = without_each(x, labels, folds);
  torch::Tensor d =
      torch::empty({x.rows.size(0), static_cast<std::int64_t>(labels.outputs)}, torch::kFloat64);
  torch::Tensor log_shares = torch::empty_like(d);
  for (const HeldOutFold& part : parts)
    log_shares.index_copy_(0, part.rows,
                           part.fit.log_shares().expand({part.rows.size(0), -1}).contiguous());
  const auto features = static_cast<double>(std::max<std::int64_t>(x.axes.size(0), 1));
  return best_on_path(x.features() / features, [&](double penalty) {
    for (const HeldOutFold& part : parts)
      d.index_copy_(0, part.rows, part.x.mm(part.fit.coefficients(penalty)));
    return with_best_multiple(labels, penalty, d, log_shares);
  });
}

}  // namespace

LinearFit choose_fit(const PrincipalAxes& x, const RowLabels& labels, const RowFolds& folds) {
  return labels.of_classes() ? choose_discriminants(x, labels, folds)
                             : choose_ridge(x, labels, folds);
}

double log_likelihood(const RowLabels& labels, double loss) {
  if (labels.loss != RowLabels::Loss::kSquares) return -loss;
  const double least = std::numeric_limits<double>::min();  // where all are predicted exactly
  return -static_cast<double>(labels.rows()) / 2 * std::log(std::max(loss, least));
}

torch::Tensor fit_chosen(const PrincipalAxes& x, const RowLabels& labels, const LinearFit& fit) {
  if (!labels.of_classes()) return fit_ridge(x, labels, fit.penalty);
  const Discriminants discriminants(on_axes(x), labels);
  torch::Tensor coefficients = discriminants.coefficients(fit.penalty) * fit.multiple;
  coefficients.select(0, coefficients.size(0) - 1).add_(discriminants.log_shares());
  return coefficients;
}

}  // namespace coldframe::temporal

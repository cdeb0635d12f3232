#include "train_temporal/ridge/ridge.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "train_temporal/ridge/minimise.h"

namespace coldframe::temporal {
namespace {

// Directions in which so small a share of the rows' variance lies are rounding.
constexpr double kLeastVariance = 1e-12;
// Losses of predictions are compared, whose error need not be smaller.
constexpr double kChoiceTolerance = 1e-6;

torch::Tensor of_vector(std::span<const double> values, std::int64_t columns) {
  return torch::from_blob(const_cast<double*>(values.data()),
                          {std::ssize(values) / columns, columns}, torch::kFloat64);
}

std::span<const double> values_of(const torch::Tensor& table) {
  return {table.const_data_ptr<double>(), static_cast<std::size_t>(table.numel())};
}

// The sum of losses of outputs [n, C'], and their gradient.
using OutputLoss = std::function<double(std::span<const double> z, std::span<double> gradient)>;

torch::Tensor solve(const PrincipalAxes& x, const OutputLoss& loss, std::int64_t outputs,
                    double curvature, double penalty, double tolerance,
                    const torch::Tensor& start) {
  const std::int64_t width = x.rows.size(1), rows = x.rows.size(0);
  const auto variance = values_of(x.variance);
  std::vector<double> scale, decay;
  for (std::int64_t j = 0; j < width; ++j) {
    const bool is_axis = j < std::ssize(variance);
    const double sum = is_axis ? variance[static_cast<std::size_t>(j)] : static_cast<double>(rows);
    scale.insert(scale.end(), static_cast<std::size_t>(outputs),
                 1 / (curvature * sum + (is_axis ? penalty : 0)));
    decay.insert(decay.end(), static_cast<std::size_t>(outputs), is_axis ? penalty : 0);
  }
  torch::Tensor slope = torch::empty({rows, outputs}, torch::kFloat64);
  const std::span<double> slopes(slope.data_ptr<double>(), static_cast<std::size_t>(slope.numel()));
  const torch::Tensor turned = x.rows.t();
  const Objective64 function = [&](std::span<const double> w, std::span<double> gradient) {
    const torch::Tensor z = x.rows.mm(of_vector(w, outputs));
    double value = loss(values_of(z), slopes);
    const torch::Tensor down = turned.mm(slope);
    const auto from_loss = values_of(down);
    for (std::size_t i = 0; i < w.size(); ++i) {
      gradient[i] = from_loss[i] + decay[i] * w[i];
      value += decay[i] * w[i] * w[i] / 2;
    }
    return value;
  };
  std::vector<double> begin(scale.size(), 0.0);
  if (start.defined()) std::ranges::copy(values_of(start), begin.begin());
  const std::vector<double> best = minimise(function, std::move(begin), scale, tolerance);
  return of_vector(best, outputs).clone();
}

template <class Predicate>
std::vector<std::size_t> rows_where(const std::vector<std::size_t>& of_row, Predicate holds) {
  std::vector<std::size_t> rows;
  for (std::size_t row = 0; row < of_row.size(); ++row)
    if (holds(of_row[row])) rows.push_back(row);
  return rows;
}

// The rows that train a fold's fit, with their labels.
struct TrainingRows {
  std::vector<std::size_t> rows;
  RowLabels labels;
};

}  // namespace

double PrincipalAxes::features() const {
  return variance.sum().item<double>() / static_cast<double>(rows.size(0));
}

PrincipalAxes principal_axes(const torch::Tensor& x) {
  if (!x.isfinite().all().item<bool>())
    throw std::invalid_argument("ridge: a row holds a value that is not finite");
  const bool wide = x.size(1) > x.size(0);
  auto [variance, axes] = torch::linalg_eigh(wide ? x.mm(x.t()) : x.t().mm(x), "L");
  const double most = variance.numel() > 0 ? variance.max().item<double>() : 0;
  const torch::Tensor kept =
      (variance > std::max(most * kLeastVariance, 1e-300)).nonzero().flatten();
  variance = variance.index_select(0, kept);
  axes = axes.index_select(1, kept);
  if (wide) axes = x.t().mm(axes) / variance.sqrt();
  const torch::Tensor ones = torch::ones({x.size(0), 1}, torch::kFloat64);
  return {torch::cat({x.mm(axes), ones}, 1).contiguous(), axes.contiguous(), variance.contiguous()};
}

PrincipalAxes no_axes(std::int64_t rows) {
  const torch::Tensor none = torch::empty({0}, torch::kFloat64);
  return {torch::ones({rows, 1}, torch::kFloat64), none.view({0, 0}), none};
}

torch::Tensor index_of(const std::vector<std::size_t>& rows) {
  return torch::tensor(std::vector<std::int64_t>(rows.begin(), rows.end()), torch::kInt64);
}

std::vector<std::size_t> RowFolds::rows(std::size_t fold) const {
  return rows_where(of_row, [fold](std::size_t of) { return of == fold; });
}

std::vector<std::size_t> RowFolds::other_rows(std::size_t fold) const {
  return rows_where(of_row, [fold](std::size_t of) { return of != fold; });
}

torch::Tensor fit_ridge(const PrincipalAxes& x, const RowLabels& labels, double penalty,
                        double tolerance, const torch::Tensor& start) {
  const auto loss = [&](std::span<const double> z, std::span<double> gradient) {
    return loss_of(labels, z, gradient);
  };
  return solve(x, loss, static_cast<std::int64_t>(labels.outputs), labels.curvature(), penalty,
               tolerance, start);
}

torch::Tensor fit_without_folds(const PrincipalAxes& x, const RowLabels& labels,
                                const RowFolds& folds, double penalty, const torch::Tensor& start) {
  const std::size_t width = labels.outputs, all = folds.count * width;
  std::vector<TrainingRows> parts(folds.count);
  for (std::size_t k = 0; k < folds.count; ++k) {
    parts[k].rows = folds.other_rows(k);
    parts[k].labels = labels.at(parts[k].rows);
  }
  const auto loss = [&](std::span<const double> z, std::span<double> gradient) {
    std::ranges::fill(gradient, 0.0);
    double sum = 0;
    std::vector<double> own, slope;
    for (std::size_t k = 0; k < parts.size(); ++k) {
      const auto& rows = parts[k].rows;
      own.resize(rows.size() * width);
      slope.resize(own.size());
      for (std::size_t i = 0; i < rows.size(); ++i)
        std::copy_n(&z[rows[i] * all + k * width], width, &own[i * width]);
      sum += loss_of(parts[k].labels, own, slope);
      for (std::size_t i = 0; i < rows.size(); ++i)
        std::copy_n(&slope[i * width], width, &gradient[rows[i] * all + k * width]);
    }
    return sum;
  };
  return solve(x, loss, static_cast<std::int64_t>(all), labels.curvature(), penalty,
               kChoiceTolerance, start);
}

}  // namespace coldframe::temporal

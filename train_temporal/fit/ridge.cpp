#include "train_temporal/fit/ridge.h"

#include <algorithm>
#include <boost/math/tools/minima.hpp>
#include <cmath>
#include <deque>
#include <functional>
#include <limits>
#include <numeric>
#include <span>
#include <stdexcept>
#include <vector>

#include "common/torch/precision.h"

namespace coldframe::temporal {

// Finds the minimum of a smooth convex function by L-BFGS (Liu and Nocedal 1989).

// Returns the value at x and writes the gradient there.
using Objective64 = std::function<double(std::span<const double> x, std::span<double> gradient)>;

// Ends where the value is within `tolerance`, relative, of what its slope says can be reached.
// `scale` [n]: about the inverse of the second derivatives.
std::vector<double> minimise(const Objective64& function, std::vector<double> start,
                             std::span<const double> scale, double tolerance);

namespace {

using Vector = std::vector<double>;

constexpr std::size_t kRemembered = 12;
constexpr std::size_t kMaxSteps = 500;

double dot(const Vector& a, const Vector& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

struct Step {
  Vector moved, turned;  // of x and of the gradient
  double product;        // of both
};

// The product of the estimated inverse of the second derivatives with the gradient.
Vector direction(const std::deque<Step>& steps, Vector gradient, std::span<const double> scale) {
  Vector shares(steps.size());
  for (std::size_t k = steps.size(); k-- > 0;) {
    const Step& step = steps[k];
    shares[k] = dot(step.moved, gradient) / step.product;
    for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] -= shares[k] * step.turned[i];
  }
  double unit = 1;
  if (!steps.empty()) {
    const Vector& turned = steps.back().turned;
    double scaled = 0;
    for (std::size_t i = 0; i < turned.size(); ++i) scaled += turned[i] * scale[i] * turned[i];
    unit = steps.back().product / scaled;
  }
  for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] *= unit * scale[i];
  for (std::size_t k = 0; k < steps.size(); ++k) {
    const Step& step = steps[k];
    const double back = shares[k] - dot(step.turned, gradient) / step.product;
    for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] += back * step.moved[i];
  }
  return gradient;
}

}  // namespace

Vector minimise(const Objective64& function, Vector start, std::span<const double> scale,
                double tolerance) {
  const std::size_t n = start.size();
  Vector x = std::move(start), gradient(n), next(n), next_gradient(n);
  double value = function(x, gradient);
  std::deque<Step> steps;
  for (std::size_t step = 0; step < kMaxSteps; ++step) {
    double left = 0;  // twice what can be gained, by `scale`
    for (std::size_t i = 0; i < n; ++i) left += gradient[i] * scale[i] * gradient[i];
    if (left <= tolerance * (std::abs(value) + 1e-6)) break;
    const Vector down = direction(steps, gradient, scale);
    const double slope = -dot(gradient, down);
    double next_value = 0, length = 1;
    for (; length > 1e-10; length /= 2) {
      for (std::size_t i = 0; i < n; ++i) next[i] = x[i] - length * down[i];
      next_value = function(next, next_gradient);
      constexpr double kEnough = 1e-4;  // of what the slope promises
      if (next_value <= value + kEnough * length * slope) break;
    }
    if (length <= 1e-10) break;  // rounding hides what is left
    Step taken{Vector(n), Vector(n), 0};
    for (std::size_t i = 0; i < n; ++i) {
      taken.moved[i] = next[i] - x[i];
      taken.turned[i] = next_gradient[i] - gradient[i];
    }
    taken.product = dot(taken.moved, taken.turned);
    x.swap(next);
    gradient.swap(next_gradient);
    value = next_value;
    if (taken.product <= 0) continue;
    steps.push_back(std::move(taken));
    if (steps.size() > kRemembered) steps.pop_front();
  }
  return x;
}

namespace {

// Directions with a smaller fraction of the rows' variance are rounding errors.
constexpr double kMinVariance = 1e-12;
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
  const torch::Tensor kept = (variance > std::max(most * kMinVariance, 1e-300)).nonzero().flatten();
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

constexpr double kRowsOfAbsentClass = 0.5;

Discriminants::Discriminants(const torch::Tensor& rows, const RowLabels& labels)
    : outputs_(labels.outputs) {
  const std::vector<std::int64_t> numbers(labels.value.begin(), labels.value.end());
  const auto classes = static_cast<std::int64_t>(std::max<std::size_t>(labels.outputs, 2));
  const torch::Tensor member =
      torch::one_hot(torch::tensor(numbers, torch::kInt64), classes).to(torch::kFloat64);
  const torch::Tensor count = member.sum(0);
  const auto n = static_cast<double>(std::max<std::int64_t>(rows.size(0), 1));
  mean_ = rows.sum(0) / n;
  const torch::Tensor from_mean = rows - mean_;
  centres_ = from_mean.t().mm(member) / count.clamp_min(1);
  const torch::Tensor within = from_mean - member.mm(centres_.t());
  covariance_ = within.t().mm(within) / n;
  const torch::Tensor shares = count.clamp_min(kRowsOfAbsentClass) / n;
  log_shares_ = outputs_of(shares.log().unsqueeze(0)).squeeze(0);
}

torch::Tensor Discriminants::coefficients(double penalty) const {
  torch::Tensor ridge = covariance_.clone();
  ridge.diagonal().add_(penalty);
  const torch::Tensor weights = torch::cholesky_solve(centres_, torch::linalg_cholesky(ridge));
  const torch::Tensor middle = mean_.unsqueeze(1) + centres_ / 2;
  return outputs_of(torch::cat({weights, -(weights * middle).sum(0, true)}));
}

torch::Tensor Discriminants::outputs_of(const torch::Tensor& classes) const {
  return outputs_ == 1 ? classes.narrow(1, 1, 1) - classes.narrow(1, 0, 1) : classes;
}

namespace {

// The best of `fit(penalty)`, from the strongest penalty down, in half powers of ten of `unit`.
// Stops after three consecutive deteriorations.
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

// The loss of predictions, without gradient.
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

#include "train_temporal/ridge/minimise.h"

#include <cmath>
#include <deque>
#include <numeric>

namespace coldframe::temporal {
namespace {

using Vector = std::vector<double>;

constexpr std::size_t kRemembered = 12;
constexpr std::size_t kMostSteps = 500;

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
  for (std::size_t step = 0; step < kMostSteps; ++step) {
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

}  // namespace coldframe::temporal

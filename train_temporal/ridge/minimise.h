// Finds the minimum of a smooth convex function by L-BFGS (Liu and Nocedal 1989).
#pragma once

#include <functional>
#include <span>
#include <vector>

namespace coldframe::temporal {

// Returns the value at x and writes the gradient there.
using Objective64 = std::function<double(std::span<const double> x, std::span<double> gradient)>;

// Ends where the value is within `tolerance`, relative, of what its slope says can be reached.
// `scale` [n]: about the inverse of the second derivatives.
std::vector<double> minimise(const Objective64& function, std::vector<double> start,
                             std::span<const double> scale, double tolerance);

}  // namespace coldframe::temporal

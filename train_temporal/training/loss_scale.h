// The factor that keeps float16 gradients from underflow. A plain value, so that a checkpoint can
// hold it.
#pragma once

#include <algorithm>
#include <cstddef>

namespace coldframe::temporal {

// Halved when a gradient is no finite number, whose step is left out; doubled after many that were
// (Micikevicius et al. 2018, with PyTorch's constants).
struct LossScale {
  double factor = 65536;
  std::size_t steady = 0;  // steps since the last change

  void update(bool finite) {
    constexpr std::size_t kSteadySteps = 2000;
    if (!finite) {
      factor = std::max(factor / 2, 1.0);
      steady = 0;
    } else if (++steady == kSteadySteps) {
      factor *= 2;
      steady = 0;
    }
  }
};

}  // namespace coldframe::temporal

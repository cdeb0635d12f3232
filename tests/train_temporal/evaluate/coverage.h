// What the simulations of intervals share: how often an interval holds the truth, and a
// bootstrap's.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "common/threads/counter_random.h"

namespace coldframe::temporal {

inline double normal(CounterRandom& random) {
  const double u = std::max(random.uniform(), 1e-300);
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * M_PI * random.uniform());
}

struct Interval {
  double low = 0, high = 0;
};

// The middle 95 % of a bootstrap's values.
inline Interval middle(std::vector<double> values) {
  std::ranges::sort(values);
  const auto at = [&](double share) {
    return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1) + 0.5)];
  };
  return {at(0.025), at(0.975)};
}

struct Tally {
  double held = 0, width = 0;
  void add(const Interval& interval, double truth) {
    held += interval.low <= truth && truth <= interval.high;
    width += interval.high - interval.low;
  }
};

// COHORTS [PATIENTS ...] of a command line.
struct Sizes {
  std::size_t cohorts = 500;
  std::vector<std::size_t> patients;
  Sizes(const std::vector<std::string>& words, std::vector<std::size_t> usual) {
    if (!words.empty()) cohorts = std::stoul(words[0]);
    for (std::size_t i = 1; i < words.size(); ++i) patients.push_back(std::stoul(words[i]));
    if (patients.empty()) patients = std::move(usual);
  }
};

}  // namespace coldframe::temporal

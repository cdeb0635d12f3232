// The variance that a figure owes to chance among patients, from leaving out each of them in turn.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "train_temporal/metrics/intervals/bounds.h"
#include "train_temporal/metrics/intervals/intervals.h"

namespace coldframe::temporal {

// A figure is the mean over folds, or the pooled one.
enum class Aggregation { kOverFolds, kPooled };

// Each patient changes a figure by so much when left out, beside the others of the same stratum;
// one alone is compared with the figure itself. The squares add up to the jackknife's variance,
// (g − 1) / g · Σ (a − ā)² over the g patients of each stratum. NaN where the figure is undefined
// without one of the patients; those that have no exams here are left out.
struct Influences {
  std::vector<double> by;
  std::vector<std::pair<std::size_t, int>> stratum;  // fold (of means over folds), class
};
Influences changes_of(const MetricTable& table, std::size_t metric, Aggregation taken,
                      double value);
double covariance(const Influences& a, const Influences& b);
double freedom_of(const Influences& changes);  // of the variance: Satterthwaite's over classes

double mean_defined(std::span<const double> numbers);  // NaN where none is

// A perfect figure rests on all patients, or on those of the class that has the fewest where each
// class counts by itself.
std::size_t units_of(const MetricTable& table, std::size_t metric, Aggregation taken);

Spread spread_of(const MetricTable& table, std::size_t metric, Aggregation taken,
                 const Influences& changes);

}  // namespace coldframe::temporal

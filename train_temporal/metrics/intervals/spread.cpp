#include "train_temporal/metrics/intervals/spread.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

namespace coldframe::temporal {
namespace {

struct Share {
  std::size_t patients = 0;
  double variance = 0, freedom = 0;
};

double sum_of_powers(const std::vector<double>& x, int power) {
  double sum = 0;
  for (double each : x) sum += std::pow(each, power);
  return sum;
}

void add_shape(Spread& spread, const std::vector<double>& change) {
  const auto n = static_cast<double>(change.size());
  const double squares = spread.variance;
  if (n < 3 || !(squares > 0)) return;
  spread.skewness =
      -sum_of_powers(change, 3) / std::pow(squares, 1.5) * std::sqrt(n * (n - 1)) / (n - 2);
  const double kurtosis = n * sum_of_powers(change, 4) / (squares * squares);
  spread.freedom_of_variance = 2 / (kurtosis / n - (n - 3) / (n * (n - 1)));
}

std::size_t rarest_class(const MetricTable& table) {
  return *std::ranges::min_element(table.patients_of_class);
}

bool are_pairs(const MetricTable& table, std::size_t m, Aggregation taken) {
  return table.metrics[m]->units == Units::kPairs && taken == Aggregation::kOverFolds;
}

// Twice the harmonic mean of the sizes of two classes counts for a figure of both.
double trials_of(const MetricTable& table, std::size_t m, std::size_t units) {
  const auto counts = static_cast<double>(units);
  const Units kind = table.metrics[m]->units;
  const bool of_units = table.patients_of_class.empty() || units == table.patients ||
                        kind == Units::kPositives || kind == Units::kNegatives ||
                        kind == Units::kEvents;
  if (of_units) return counts;
  const auto rare = static_cast<double>(rarest_class(table));
  const auto all = static_cast<double>(table.patients);
  return std::max(4 * rare * (all - rare) / all, rare);
}

}  // namespace

double mean_defined(std::span<const double> numbers) {
  double sum = 0, count = 0;
  for (double number : numbers) {
    if (std::isnan(number)) continue;
    sum += number;
    count += 1;
  }
  return count > 0 ? sum / count : std::numeric_limits<double>::quiet_NaN();
}

Influences changes_of(const MetricTable& table, std::size_t m, Aggregation taken, double value) {
  struct Sum {
    double n = 0, change = 0;
  };
  Influences changes;
  std::map<std::pair<std::size_t, int>, Sum> strata;
  for (const MetricTable::Block& block : table.blocks) {
    if (block.of_class < 0) continue;
    const MetricTable::Row& row = block.without[m];
    changes.by.push_back(mean_defined(taken == Aggregation::kOverFolds ? row.fold : row.pooled) -
                         value);
    changes.stratum.emplace_back(taken == Aggregation::kOverFolds ? block.fold : 0,
                                 table.metrics[m]->given_classes ? block.of_class : 0);
    Sum& sum = strata[changes.stratum.back()];
    sum.n += 1;
    sum.change += changes.by.back();
  }
  for (std::size_t i = 0; i < changes.by.size(); ++i) {
    const auto& [n, change] = strata[changes.stratum[i]];
    if (n > 1) changes.by[i] = std::sqrt((n - 1) / n) * (changes.by[i] - change / n);
  }
  return changes;
}

double covariance(const Influences& a, const Influences& b) {
  return std::inner_product(a.by.begin(), a.by.end(), b.by.begin(), 0.0);
}

double freedom_of(const Influences& changes) {
  std::map<std::pair<std::size_t, int>, Share> strata;
  for (std::size_t i = 0; i < changes.by.size(); ++i) {
    Share& share = strata[changes.stratum[i]];
    ++share.patients;
    share.variance += changes.by[i] * changes.by[i];
  }
  std::map<int, Share> of_class;
  for (const auto& [stratum, share] : strata) {
    Share& one = of_class[stratum.second];
    one.variance += share.variance;
    one.freedom += std::max(static_cast<double>(share.patients) - 1, 1.0);
  }
  double variance = 0, freedom = 0, squares = 0;
  for (const auto& [of, one] : of_class) {
    variance += one.variance;
    freedom += one.freedom;
    squares += one.variance * one.variance / one.freedom;
  }
  return squares > 0 ? variance * variance / squares : freedom;
}

std::size_t units_of(const MetricTable& table, std::size_t m, Aggregation taken) {
  if (table.patients_of_class.empty()) return table.blocks.size();
  switch (table.metrics[m]->units) {
    case Units::kPositives:
    case Units::kEvents:
      return table.patients_of_class[1];
    case Units::kNegatives:
      return table.patients_of_class[0];
    case Units::kPatients:
      return table.patients;
    case Units::kPairs:
      if (are_pairs(table, m, taken)) return table.pairs;
      break;
    case Units::kRarestClass:
      break;
  }
  return rarest_class(table);
}

Spread spread_of(const MetricTable& table, std::size_t m, Aggregation taken,
                 const Influences& changes) {
  Spread spread;
  spread.variance = covariance(changes, changes);
  spread.freedom = freedom_of(changes);
  spread.units = units_of(table, m, taken);
  spread.are_pairs = are_pairs(table, m, taken);
  spread.trials = trials_of(table, m, spread.units);
  add_shape(spread, changes.by);
  return spread;
}

}  // namespace coldframe::temporal

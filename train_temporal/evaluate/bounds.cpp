#include "train_temporal/evaluate/bounds.h"

#include <algorithm>
#include <boost/math/distributions/normal.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "common/text/text.h"

namespace coldframe::temporal {

namespace {

struct Range {
  double low, high;
};

Range wilson(double share, double trials, double z) {
  const double scale = 1 + z * z / trials, middle = (share + z * z / (2 * trials)) / scale;
  const double half =
      z / scale * std::sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials));
  return {middle - half, middle + half};
}

// As far as a sample excludes failures of which it has none.
Range without_failure(double share, const Spread& spread, double z, double level) {
  const auto alone = static_cast<double>(std::max<std::size_t>(spread.units, 1));
  std::vector<double> units;
  for (const Spread::Part& part : spread.parts) units.push_back(part.apart);
  double low = least_mean(units.empty() ? std::vector{alone} : units, (1 - level) / 2);
  if (spread.trials > alone) low = std::max(low, wilson(1, spread.trials, z).low);
  return share > 0.5 ? Range{low, 1} : Range{0, 1 - low};
}

// Of a mean of shares that each count so many units.
double lower_bound(double mean, const Spread& spread, double level) {
  const double z = normal_quantile((1 + level) / 2);
  double sum = 0, squares = 0;
  for (const auto& [value, units, apart] : spread.parts) {
    const double reach = value - wilson(value, units, z).low;
    sum += reach;
    squares += reach * reach;
  }
  const double reach = spread.parts_may_agree ? sum : std::sqrt(squares);
  return mean - reach / static_cast<double>(spread.parts.size());
}

double moderated_variance(double share, const Spread& spread) {
  if (spread.trials <= 0) return spread.variance;
  const double prior = share * (1 - share) / spread.trials, freedom = spread.freedom_of_variance;
  if (prior <= spread.variance) return spread.variance;
  return (freedom * spread.variance + prior) / (freedom + 1);
}

Range share_range(double share, const Spread& spread, double z, double level) {
  const Range none = without_failure(share, spread, z, level);
  if (share <= 0 || share >= 1) return none;
  const double trials = spread.variance > 0
                            ? share * (1 - share) / moderated_variance(share, spread)
                            : static_cast<double>(std::max<std::size_t>(spread.units, 1));
  const Range range = wilson(share, trials, z);
  // A failure never makes a figure more certain.
  if (share <= 0.5) return {range.low, std::max(range.high, none.high)};
  // Few patients of a rare class may make most of the variance, so that its degrees of freedom are
  // too few to say anything.
  const double of_parts = spread.parts.empty() ? 0 : lower_bound(share, spread, level);
  return {std::min(std::max(range.low, of_parts), none.low), range.high};
}

// Hall 1992: (θ̂ − θ) / error is a cubic of a normal number, whose inverse is `root`. `skewness` is
// over √n. The cubic is an expansion for small ones: where skewness · z nears 1, its inverse runs
// off (to 7 errors of 95 % at 0.5), and says nothing of how far the truth may be.
constexpr double kMaxSkewnessTimesZ = 0.7;

Range skewed_range(double value, double error, double skewness, double z) {
  skewness = std::clamp(skewness, -kMaxSkewnessTimesZ / z, kMaxSkewnessTimesZ / z);
  const auto root = [&](double x) {
    return std::abs(skewness) < 1e-6
               ? x
               : 3 / skewness * (std::cbrt(1 + skewness * (x - skewness / 6)) - 1);
  };
  return {value - error * root(z), value - error * root(-z)};
}

// The error of a line rests on the patients where the classes overlap.
constexpr double kMinFreedomOfLine = 3;

bool rests_on_few(Shape shape, const Spread& spread) {
  return shape == Shape::kAnywhere && spread.freedom_of_variance < kMinFreedomOfLine;
}

// No patient changes the figure, and it is not at an end that only a failure could leave.
bool is_degenerate(Shape shape, double value, const Spread& spread) {
  const bool at_the_end = shape == Shape::kShare    ? value <= 0 || value >= 1
                          : shape == Shape::kSigned ? std::abs(value) >= 1
                                                    : false;
  return spread.variance <= 0 && !at_the_end;
}

}  // namespace

double normal_quantile(double share) {
  return quantile(boost::math::normal(), share);
}

double student_quantile(double share, double freedom) {
  return quantile(boost::math::students_t(std::max(freedom, 2.0)), share);
}

MetricRange range_of(Metric metric) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  switch (metric->shape) {
    case Shape::kShare:
      return {0, 1};
    case Shape::kSigned:
      return {-1, 1};
    case Shape::kPositive:
    case Shape::kError:
      return {0, kInfinity};
    case Shape::kBelowOne:
      return {-kInfinity, 1};
    default:
      return {-kInfinity, kInfinity};
  }
}

double largest_difference(Metric metric) {
  const MetricRange range = range_of(metric);
  return range.high - range.low;
}

double least_mean(std::vector<double> units, double chance) {
  std::ranges::sort(units);
  // Where t < 1, it is in proportion to the units (Lagrange); the most units are the first to have
  // t = 1.
  double sum = 0, weighted = 0;
  for (const double n : units) {
    sum += n;
    weighted += n * std::log(n);
  }
  for (std::size_t below = units.size();; --below) {
    const double scale = std::exp((std::log(chance) - weighted) / sum), most = units[below - 1];
    if (below == 1 || scale * most <= 1) {
      const auto all = static_cast<double>(units.size());
      return (scale * sum + all - static_cast<double>(below)) / all;
    }
    sum -= most;
    weighted -= most * std::log(most);
  }
}

Bounds difference_bounds(double difference, const Spread& patients, const FitSpread& fits,
                         double most, double level) {
  const double variance = patients.variance + fits.variance, error = std::sqrt(variance);
  const auto quantile = [&](double freedom) {
    const double squares = patients.variance * patients.variance / freedom +
                           (fits.variance > 0 ? fits.variance * fits.variance / fits.freedom : 0);
    return student_quantile((1 + level) / 2, variance * variance / squares);
  };
  const double reach =
      error * quantile(std::min(patients.freedom, std::max(patients.freedom_of_variance, 1.0)));
  // What fits add is symmetrical.
  const double skewness = patients.skewness * std::pow(patients.variance / variance, 1.5);
  const Range skewed = skewed_range(difference, error, skewness, quantile(patients.freedom));
  const auto possible = [&](double bound) {
    return MetricValue::of(std::clamp(bound, -most, most));
  };
  return {possible(std::min(difference - reach, skewed.low)),
          possible(std::max(difference + reach, skewed.high))};
}

Bounds share_bounds(double share, const Spread& spread, double level) {
  const double z = student_quantile((1 + level) / 2, spread.freedom);
  const Range range = share_range(share, spread, z, level);
  return {MetricValue::of(range.low), MetricValue::of(range.high)};
}

std::string too_small_a_sample(std::size_t units, bool are_pairs, std::size_t needed) {
  const std::string of = are_pairs ? " of patients" : "";
  const std::string noun = are_pairs ? "pair" : "patient";
  return concat(
      "too small a sample to bound: ", units == 0 ? concat("no ", noun) : plural(units, noun), of,
      needed > 0 ? concat(", ", needed, " needed") : "");
}

bool is_any_value(const Bounds& bounds, const MetricRange& range) {
  constexpr double kPrinted = 0.0005;  // as little as three digits do not show
  return bounds.low.value < range.low + kPrinted && bounds.high.value > range.high - kPrinted;
}

Bounds bounds_of(Metric metric, double value, const Spread& spread, double level) {
  const Shape shape = metric->shape;
  const auto none = [](const std::string& why) {
    return Bounds{MetricValue::none(why), MetricValue::none(why)};
  };
  if (shape == Shape::kNone) return none("binning biases it upwards");
  if (spread.units < metric->min_units) {
    return none(too_small_a_sample(spread.units, spread.are_pairs, metric->min_units));
  }
  if (is_degenerate(shape, value, spread)) {
    // A model with a constant score ranks no exam before another, whatever the sample.
    if (metric->chance > 0 && value == metric->chance) {
      return {MetricValue::of(value), MetricValue::of(value)};
    }
    return none("it is the same without any one patient");
  }
  if (rests_on_few(shape, spread)) {
    return none("too small a sample to bound: a few patients decide where the classes overlap");
  }
  const double z = student_quantile((1 + level) / 2, spread.freedom);
  const double error = std::sqrt(spread.variance);
  Range range{value - z * error, value + z * error};
  if (shape == Shape::kShare) range = share_range(value, spread, z, level);
  if (shape == Shape::kPositive || shape == Shape::kError) {
    range = skewed_range(value, error, spread.skewness, z);
    range.low = std::max(range.low, 0.0);  // no error is below
  }
  if (shape == Shape::kError && range.low <= 0)
    return none("too small a sample to bound: a few patients make up most of the error");
  if (shape == Shape::kSigned) {
    Spread half = spread;
    half.variance /= 4;
    const Range share = share_range((1 + value) / 2, half, z, level);
    range = {2 * share.low - 1, 2 * share.high - 1};
  }
  if (shape == Shape::kBelowOne) {
    const double size = 1 - value;
    if (size <= 0) return none("there is no error to bound");
    const double factor = std::exp(z * error / size);
    range = {1 - size * factor, 1 - size / factor};
  }
  const Bounds bounds{MetricValue::of(range.low), MetricValue::of(range.high)};
  if (is_any_value(bounds, range_of(metric)))
    return none(too_small_a_sample(spread.units, spread.are_pairs));
  return bounds;
}

}  // namespace coldframe::temporal

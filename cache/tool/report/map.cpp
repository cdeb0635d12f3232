// Exams as points in the plane of their first two principal components.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <numeric>
#include <random>

#include "cache/tool/exams/filter.h"
#include "cache/tool/figures/similarity.h"
#include "cache/tool/report/report.h"
#include "common/charts/html.h"
#include "common/cli/error.h"
#include "common/text/suggestion.h"
#include "common/text/text.h"

namespace coldframe::cache::tool {
namespace {

constexpr std::size_t kMostColours = 8;

// Draws exams at random, in the order of the cache: labels often alternate, and even steps would
// miss some.
std::vector<std::size_t> drawn_exams(std::size_t count) {
  std::vector<std::size_t> all(count), drawn;
  std::iota(all.begin(), all.end(), std::size_t{0});
  std::sample(all.begin(), all.end(), std::back_inserter(drawn), kMostMapped, std::mt19937_64(0));
  return drawn;
}

std::map<std::string, std::size_t> count_values(const CacheReader& cache,
                                                const std::string& column) {
  std::map<std::string, std::size_t> counts;
  for (const ExamInfo& exam : cache.exams()) {
    ++counts[column_value(exam, column)];
    if (counts.size() > 1000) break;  // no classes
  }
  return counts;
}

std::string choose_column(const CacheReader& cache, const std::string& wanted) {
  const std::vector<std::string> names = cache.column_names();
  if (wanted.empty()) {
    for (const std::string& name : names) {
      const std::size_t values = count_values(cache, name).size();
      if (values >= 2 && values <= kMostColours) return name;
    }
    return "";
  }
  if (std::find(names.begin(), names.end(), wanted) != names.end()) return wanted;
  throw ConfigError(concat("--colour: the cache has no column '", wanted, "'; it has ",
                           known_words(names, wanted)));
}

// The most frequent values have a colour each; all others share the last.
std::vector<std::string> coloured_values(const CacheReader& cache, const std::string& column) {
  const auto counts = count_values(cache, column);
  std::vector<std::pair<std::string, std::size_t>> frequent(counts.begin(), counts.end());
  std::stable_sort(frequent.begin(), frequent.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  if (frequent.size() > kMostColours) frequent.resize(kMostColours - 1);
  std::vector<std::string> values;
  for (const auto& [value, count] : frequent) values.push_back(value);
  std::sort(values.begin(), values.end(), natural_less);
  return values;
}

}  // namespace

std::string map_section(const CacheReader& cache, const std::string& wanted) {
  const std::string column = choose_column(cache, wanted);
  const auto dimension = static_cast<std::size_t>(cache.dimension());
  Matrix means{0, dimension, {}};
  std::vector<std::size_t> mapped;
  cache.scan("clean", drawn_exams(cache.exams().size()),
             [&](std::size_t exam, std::span<const float> features) {
               const std::vector<float> mean = mean_row(features, dimension);
               if (!std::isfinite(mean[0])) return;
               means.add_row(mean);
               mapped.push_back(exam);
             });
  centre(means);
  const PrincipalAxes axes = principal_axes(means, 2);
  if (axes.axes.rows < 2) return "<p>Too few exams for a map.</p>\n";
  const Matrix points = products(means, axes.axes);
  const std::vector<std::string> values =
      column.empty() ? std::vector<std::string>{} : coloured_values(cache, column);
  const auto axis_label = [&](std::size_t i) {
    return concat("component ", i + 1, " (", fixed(100 * axes.variance_share[i], 1),
                  " % of the variance)");
  };
  html::Chart chart{"Exams by their mean features", axis_label(0), axis_label(1), {}};
  for (const std::string& value : values)
    chart.series.push_back({value.empty() ? "no value" : value, {}, {}, {}, {}});
  if (values.empty() || values.size() == kMostColours - 1)
    chart.series.push_back({values.empty() ? "" : "other", {}, {}, {}, {}});
  for (std::size_t i = 0; i < mapped.size(); ++i) {
    const ExamInfo& exam = cache.exams()[mapped[i]];
    const std::string& value = column.empty() ? "" : column_value(exam, column);
    const auto place = std::find(values.begin(), values.end(), value) - values.begin();
    html::Series& series =
        chart.series[std::min(static_cast<std::size_t>(place), chart.series.size() - 1)];
    series.points = true;
    series.x.push_back(points.row(i)[0]);
    series.y.push_back(points.row(i)[1]);
    series.labels.push_back(concat(exam.id, column.empty() ? "" : concat(" (", value, ")")));
  }
  chart.large = true;
  std::erase_if(chart.series, [](const html::Series& series) { return series.x.empty(); });
  return concat(
      "<p>Each point is an exam, the mean of its frames' features, on the first two "
      "principal components",
      mapped.size() < cache.exams().size()
          ? concat(" of ", mapped.size(), " exams, drawn at random from ", cache.exams().size())
          : concat(" of all ", mapped.size(), " exams"),
      ". ",
      column.empty() ? std::string("No column has 2 to 8 different values to colour by.")
                     : concat("Colour: ", html::escape(column), "."),
      "</p>\n", html::line_chart(chart));
}

}  // namespace coldframe::cache::tool

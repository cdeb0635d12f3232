// Exams as points in the plane of their first two principal components.
#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>
#include <random>

#include "cache/tool/exams/filter.h"
#include "cache/tool/figures/similarity.h"
#include "cache/tool/report/report.h"
#include "common/charts/data_table.h"
#include "common/cli/error.h"
#include "common/text/suggestion.h"
#include "common/text/text.h"

namespace coldframe::cache::tool {
namespace {

constexpr std::size_t kMostColours = 8;

std::map<std::string, std::size_t> count_values(const CacheReader& cache,
                                                const std::string& column) {
  std::map<std::string, std::size_t> counts;
  for (const ExamInfo& exam : cache.exams()) {
    ++counts[column_value(exam, column)];
    if (counts.size() > 1000) break;  // no classes
  }
  return counts;
}

// The most frequent values have a colour each; all others share the last.
std::vector<std::string> coloured_values(const CacheReader& cache, const std::string& column) {
  const auto counts = count_values(cache, column);
  std::vector<std::pair<std::string, std::size_t>> frequent(counts.begin(), counts.end());
  std::ranges::stable_sort(frequent, std::greater<>{}, [](const auto& one) { return one.second; });
  if (frequent.size() > kMostColours) frequent.resize(kMostColours - 1);
  std::vector<std::string> values;
  for (const auto& [value, count] : frequent) values.push_back(value);
  std::sort(values.begin(), values.end(), natural_less);
  return values;
}

// Rows of the exams' means, centred, [n, D].
Matrix rows_of(const ExamMeans& means, const std::vector<std::size_t>& places) {
  Matrix rows{0, means.rows.columns, {}};
  for (const std::size_t place : places) {
    rows.add_row(means.rows.row(place));
    for (std::size_t d = 0; d < rows.columns; ++d)
      rows.values[rows.values.size() - rows.columns + d] *= means.lengths[place];
  }
  return rows;
}

// The exams of the map: drawn ones that are no outliers, which have the axes of their variance, and
// behind them all outliers.
struct Mapped {
  std::vector<std::size_t> exams;
  std::size_t usual = 0;     // of these, no outliers
  std::size_t usual_of = 0;  // from which they were drawn
  Matrix points;             // [n, 2]
  std::vector<double> variance_share;
};

Mapped map_exams(const ReportData& data) {
  const ExamMeans& means = data.means;
  std::vector<std::size_t> usual, outliers;
  for (std::size_t i = 0; i < means.exams.size(); ++i)
    (data.odd.outlier[means.exams[i]] ? outliers : usual).push_back(i);
  // At random, in the order of the cache: labels often alternate, and even steps would miss some.
  std::vector<std::size_t> places;
  std::ranges::sample(usual, std::back_inserter(places), kMostMapped, std::mt19937_64(0));
  Matrix rows = rows_of(means, places);
  const std::vector<float> middle = centre(rows);
  const PrincipalAxes axes = principal_axes(rows, 2);
  Mapped mapped{{}, places.size(), usual.size(), {}, axes.variance_share};
  if (axes.axes.rows < 2) return mapped;
  places.insert(places.end(), outliers.begin(), outliers.end());
  rows = rows_of(means, places);
  for (std::size_t i = 0; i < rows.values.size(); ++i) rows.values[i] -= middle[i % rows.columns];
  mapped.points = products(rows, axes.axes);
  for (const std::size_t place : places) mapped.exams.push_back(means.exams[place]);
  return mapped;
}

}  // namespace

std::string choose_colour(const CacheReader& cache, const std::string& wanted) {
  const std::vector<std::string> names = cache.column_names();
  if (wanted.empty()) {
    for (const std::string& name : names) {
      const std::size_t values = count_values(cache, name).size();
      if (values >= 2 && values <= kMostColours) return name;
    }
    return "";
  }
  if (std::ranges::find(names, wanted) != names.end()) return wanted;
  throw ConfigError(concat("--colour: the cache has no column '", wanted, "'; it has ",
                           known_words(names, wanted)));
}

html::Body map_section(const CacheReader& cache, const ReportData& data) {
  const std::string& column = data.colour;
  const Mapped mapped = map_exams(data);
  if (mapped.exams.empty()) return html::paragraph("Too few exams for a map.");
  const std::vector<std::string> values =
      column.empty() ? std::vector<std::string>{} : coloured_values(cache, column);
  const auto axis_label = [&](std::size_t i) {
    return concat("component ", i + 1, " (", fixed(100 * mapped.variance_share[i], 1),
                  " % of the variance)");
  };
  html::Chart chart{"Exams by their mean features", axis_label(0), axis_label(1), {}};
  for (const std::string& value : values)
    chart.series.push_back({value.empty() ? "no value" : value});
  if (values.empty() || values.size() == kMostColours - 1)
    chart.series.push_back({values.empty() ? "" : "other"});
  const std::size_t colours = chart.series.size();
  chart.series.push_back({.name = "outlier", .outliers = true});
  for (std::size_t i = 0; i < mapped.exams.size(); ++i) {
    const ExamInfo& exam = cache.exams()[mapped.exams[i]];
    const std::string& value = column.empty() ? "" : column_value(exam, column);
    const auto place = static_cast<std::size_t>(std::ranges::find(values, value) - values.begin());
    html::Series& series = chart.series[i < mapped.usual ? std::min(place, colours - 1) : colours];
    series.points = true;
    series.x.push_back(mapped.points.row(i)[0]);
    series.y.push_back(mapped.points.row(i)[1]);
    series.labels.push_back(concat(exam.id, column.empty() ? "" : concat(" (", value, ")")));
    series.links.push_back(html::link_to(kExamTable, mapped.exams[i]));
  }
  chart.large = true;
  std::erase_if(chart.series, [](const html::Series& series) { return series.x.empty(); });
  const std::size_t outliers = mapped.exams.size() - mapped.usual;
  return html::paragraph(concat(
             "Each point is an exam, the mean of its frames' features, on the first two principal "
             "components of ",
             mapped.usual < mapped.usual_of
                 ? concat(mapped.usual, " exams, drawn at random from ", mapped.usual_of)
                 : concat("all ", plural(mapped.usual, "exam")),
             outliers == 0
                 ? (data.means.exams.size() < cache.exams().size() ? " with features" : "")
                 : concat(" that are no outliers; ", plural(outliers, "outlier"),
                          outliers == 1 ? " is a ring, drawn at the edge if it lies beyond"
                                        : " are rings, at the edge if they lie beyond"),
             ". A click on a point shows the exam. ",
             column.empty() ? "No column has 2 to 8 different values to colour by."
                            : concat("Colour: ", column, "."))) +
         html::line_chart(chart);
}

}  // namespace coldframe::cache::tool

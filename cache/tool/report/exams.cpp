// Single exams: how their frames resemble each other, and which exams are nearest.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "cache/tool/exams/filter.h"
#include "cache/tool/figures/similarity.h"
#include "cache/tool/figures/times.h"
#include "cache/tool/report/report.h"
#include "common/charts/data_table.h"
#include "common/text/spelling.h"
#include "common/text/text.h"

namespace coldframe::cache::tool {
namespace {

constexpr std::size_t kNearest = 5;

std::string similarity_charts(std::span<const float> features, std::size_t dimension,
                              std::size_t exam, Pictures& pictures) {
  const std::size_t frames = features.size() / dimension;
  const std::vector<std::size_t> shown = evenly_spaced(frames, kMostFramesCompared);
  std::vector<std::vector<double>> cells;
  double low = 1;
  for (const std::size_t row : shown) {
    cells.emplace_back();
    for (const std::size_t column : shown) {
      cells.back().push_back(cosine(features.subspan(row * dimension, dimension),
                                    features.subspan(column * dimension, dimension)));
      if (std::isfinite(cells.back().back())) low = std::min(low, cells.back().back());
    }
  }
  const std::string which = shown.size() < frames ? concat(shown.size(), " of ", frames, " frames")
                                                  : concat(frames, " frames");
  std::string html = html::heat_map(concat("Cosine of ", which, ": ", fixed(low, 3), " to 1"),
                                    cells, low, 1.0, shown, pictures.of(exam, shown));
  std::vector<double> numbers(frames);
  std::iota(numbers.begin(), numbers.end(), 0);
  return html +
         html::line_chart({.title = "Cosine with the frame before",
                           .x_label = "frame",
                           .y_label = "cosine",
                           .series = {{"", numbers, cosine_to_previous(features, dimension)}},
                           .whole_x = true});
}

html::Body nearest_exams(const CacheReader& cache, const ExamMeans& means, std::size_t exam) {
  const auto place = std::find(means.exams.begin(), means.exams.end(), exam);
  if (place == means.exams.end()) return {};
  const std::vector<std::string> columns = cache.column_names();
  std::vector<std::string> header = {"nearest exam", "cosine", "patient"};
  header.insert(header.end(), columns.begin(), columns.end());
  html::Rows rows;
  std::vector<std::string> links;
  for (const Pair& pair :
       nearest_rows(means, static_cast<std::size_t>(place - means.exams.begin()), kNearest)) {
    const ExamInfo &here = cache.exams()[exam], &there = cache.exams()[means.exams[pair.b]];
    links.push_back(html::link_to(kExamTable, means.exams[pair.b]));
    rows.push_back({there.id, fixed(pair.cosine, 4),
                    here.patient.empty() || there.patient.empty() ? "unknown"
                    : spelt_alike(here.patient, there.patient)    ? "the same"
                                                                  : "another"});
    for (const std::string& column : columns) rows.back().push_back(column_value(there, column));
  }
  return html::table(header, rows, links);
}

}  // namespace

html::Body exam_section(const CacheReader& cache, const ReportData& data,
                        const std::vector<std::size_t>& exams, Pictures& pictures) {
  const auto dimension = static_cast<std::size_t>(cache.dimension());
  html::Body body = html::paragraph(
      "Matrices: the cosine between any two frames; the lower, the fainter. Nearest exams: by the "
      "cosine of mean features, after the mean of all exams was taken away.");
  for (const std::size_t index : exams) {
    const ExamInfo& exam = cache.exams()[index];
    body += concat("<h3>", html::escape(exam.id), "</h3>\n");
    std::vector<std::string> facts = {plural(exam.frames(), "frame")};
    if (missing_frames(exam) > 0) facts.push_back(concat(missing_frames(exam), " missing"));
    if (const double span = time_span(exam); std::isfinite(span))
      facts.push_back(fixed(span, 2) + " s");
    for (const ExamColumn& column : exam.columns)
      if (!column.value.empty()) facts.push_back(concat(column.name, " ", column.value));
    body += html::paragraph(join(facts, " · "));
    body += similarity_charts(cache.features(index), dimension, index, pictures);
    body += nearest_exams(cache, data.means, index);
  }
  return body;
}

}  // namespace coldframe::cache::tool

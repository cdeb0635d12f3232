// Decisions on classes, and the probabilities that lead to them.
#include <algorithm>
#include <cmath>

#include "common/charts/html.h"
#include "common/text/text.h"
#include "train_temporal/report/report_text.h"
#include "train_temporal/report/sections/sections.h"

namespace coldframe::temporal {
namespace {

html::Body classes_table(const TargetReport& report) {
  const ScoredExams all = pooled_exams(report.models.front());
  const auto counts = confusion_matrix(all);
  html::Rows rows;
  for (std::size_t c = 0; c < report.classes.size(); ++c) {
    double truly = 0, decided = 0;
    for (std::size_t k = 0; k < counts.size(); ++k) {
      truly += static_cast<double>(counts[c][k]);
      decided += static_cast<double>(counts[k][c]);
    }
    const auto right = static_cast<double>(counts[c][c]);
    const OneVsRest rest = one_vs_rest(all, c);
    rows.push_back({report.classes[c], fixed(truly, 0), ratio_text(right, truly),
                    ratio_text(right, decided), figure_text(auroc(rest.score, rest.positive))});
  }
  return html::table(
      {"class", concat("held-out ", rows_name(report)), "recall", "precision", "AUROC vs the rest"},
      rows);
}

// A histogram's outline: share of `values` (within [0, 1]) per bin.
html::Series outline(const std::string& name, const std::vector<double>& values, std::size_t bins) {
  std::vector<double> share(bins, 0);
  for (double value : values) {
    const double bin = std::clamp(std::floor(value * static_cast<double>(bins)), 0.0,
                                  static_cast<double>(bins - 1));
    share[static_cast<std::size_t>(bin)] += 1.0 / static_cast<double>(values.size());
  }
  html::Series series{name, {0.0}, {0.0}};
  for (std::size_t b = 0; b < bins; ++b) {
    for (std::size_t edge = b; edge <= b + 1; ++edge) {
      series.x.push_back(static_cast<double>(edge) / static_cast<double>(bins));
      series.y.push_back(share[b]);
    }
  }
  series.x.push_back(1.0);
  series.y.push_back(0.0);
  return series;
}

std::string confusion_chart(const TargetReport& report) {
  std::vector<std::vector<double>> cells;
  for (const auto& row : confusion_matrix(pooled_exams(report.models.front()))) {
    cells.emplace_back(row.begin(), row.end());
  }
  return html::matrix_chart(
      concat("Held-out ", rows_name(report), ": true class (row), decision (column)"),
      report.classes, report.classes, cells);
}

std::string score_chart(const TargetReport& report) {
  const ScoredExams all = pooled_exams(report.models.front());
  const bool binary = report.classes.size() == 2;
  html::Chart chart{"Predicted probabilities by true class",
                    binary ? "probability of '" + report.classes[1] + "'"
                           : std::string("probability given to the true class"),
                    concat("share of the class's ", rows_name(report))};
  for (std::size_t c = 0; c < std::min(report.classes.size(), kMostLines); ++c) {
    std::vector<double> scores;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const double score = all.score(i, binary ? 1 : c);
      if (all.label[i] == static_cast<int>(c) && std::isfinite(score)) scores.push_back(score);
    }
    if (!scores.empty())
      chart.series.push_back(outline(report.classes[c], scores, binary ? 20 : 10));
  }
  return html::line_chart(chart);
}

html::Body decisions_section(const TargetReport& report) {
  html::Body body = confusion_chart(report) + score_chart(report);
  if (report.classes.size() > 2 && report.scale == Scale::kNominal) body += classes_table(report);
  return body;
}

}  // namespace

std::span<const Section> decision_sections() {
  static constexpr Section kSections[] = {
      {.heading = "Decisions",
       .applies = has_classes,
       .body = decisions_section,
       .drawings = {{{"confusion", confusion_chart}, {"scores", score_chart}}}}};
  return kSections;
}

}  // namespace coldframe::temporal

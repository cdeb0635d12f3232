// Predictions: classes, how well they are ranked, decided on and believed, and numbers.
#include "common/charts/html.h"
#include "common/text/text.h"
#include "train_temporal/report/report_text.h"
#include "train_temporal/report/sections/charts.h"
#include "train_temporal/report/sections/sections.h"

namespace coldframe::temporal {
namespace {

std::string classes_table(const TargetReport& report) {
  const ScoredExams all = pooled_exams(report.models.front());
  const auto counts = confusion_matrix(all);
  html::Rows rows;
  for (std::size_t c = 0; c < report.classes.size(); ++c) {
    std::size_t truly = 0, decided = 0;
    for (std::size_t k = 0; k < counts.size(); ++k) {
      truly += counts[c][k];
      decided += counts[k][c];
    }
    const auto share = [&](std::size_t of) {
      return of == 0 ? std::string("–")
                     : fixed(static_cast<double>(counts[c][c]) / static_cast<double>(of), 3);
    };
    const OneVsRest rest = one_vs_rest(all, c);
    rows.push_back({report.classes[c], concat(truly), share(truly), share(decided),
                    figure_text(auroc(rest.score, rest.positive))});
  }
  return html::table(
      {"class", concat("held-out ", rows_name(report)), "recall", "precision", "AUROC vs the rest"},
      rows);
}

std::string decisions_section(const TargetReport& report) {
  std::string body = confusion_chart(report) + score_chart(report);
  if (report.classes.size() > 2 && report.scale == Scale::kNominal) body += classes_table(report);
  return body;
}

}  // namespace

std::span<const Section> prediction_sections() {
  static constexpr Section kSections[] = {
      {.heading = "Predictions",
       .applies = [](const TargetReport& report) { return report.scale == Scale::kNumber; },
       .body = scatter_chart,
       .drawings = {{{"predictions", scatter_chart}}}},
      {.heading = "ROC and precision–recall",
       .applies = [](const TargetReport& report) { return report.scale == Scale::kNominal; },
       .body =
           [](const TargetReport& report) {
             return roc_chart(report) + precision_recall_chart(report);
           },
       .drawings = {{{"roc", roc_chart}, {"precision_recall", precision_recall_chart}}}},
      {.heading = "Decisions",
       .applies = has_classes,
       .body = decisions_section,
       .drawings = {{{"confusion", confusion_chart}, {"scores", score_chart}}}}};
  return kSections;
}

}  // namespace coldframe::temporal

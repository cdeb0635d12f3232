// Predicted numbers.
#include <algorithm>

#include "common/charts/html.h"
#include "common/text/text.h"
#include "train_temporal/report/report_text.h"
#include "train_temporal/report/sections/sections.h"

namespace coldframe::temporal {
namespace {

std::string scatter_chart(const TargetReport& report) {
  const ScoredExams all = pooled_exams(report.models.front());
  if (all.size() == 0) return {};
  html::Chart chart{concat("Held-out ", rows_name(report), ": predicted '", report.target,
                     "' against the true one"),
              "true", "predicted"};
  const auto [least, most] = std::ranges::minmax(all.number);
  chart.series = {
      {.name = "predicted = true", .x = {least, most}, .y = {least, most}, .dashed = true},
      {.name = "predictions", .x = all.number, .y = all.predicted, .points = true}};
  chart.large = true;
  return html::line_chart(chart);
}

}  // namespace

std::span<const Section> number_sections() {
  static constexpr Section kSections[] = {{.heading = "Predictions",
       .applies = [](const TargetReport& report) { return report.scale == Scale::kNumber; },
       .body = scatter_chart,
       .drawings = {{{"predictions", scatter_chart}}}}};
  return kSections;
}

}  // namespace coldframe::temporal

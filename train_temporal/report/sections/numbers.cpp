// Predicted numbers.
#include <algorithm>
#include <cmath>
#include <utility>

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

// Bland and Altman 1986 draw over the mean of both. Over the true number alone, errors seem to
// depend on it where they do not.
std::string agreement_chart(const TargetReport& report) {
  const ScoredExams all = pooled_exams(report.models.front());
  html::Series points{.name = "predictions", .points = true};
  double sum = 0, squares = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const double difference = all.predicted[i] - all.number[i];
    if (!std::isfinite(difference)) continue;
    points.x.push_back((all.predicted[i] + all.number[i]) / 2);
    points.y.push_back(difference);
    sum += difference;
  }
  const auto n = static_cast<double>(points.y.size());
  if (n < 2) return {};
  for (const double one : points.y) squares += (one - sum / n) * (one - sum / n);
  const double reach = 1.96 * std::sqrt(squares / (n - 1));
  html::Chart chart{concat("Held-out ", rows_name(report), ": agreement of predicted and true '",
                           report.target, "'"),
                    "mean of both", "predicted − true"};
  chart.series = {points};
  const auto [least, most] = std::ranges::minmax(points.x);
  for (const auto& [name, y] : {std::pair("mean difference ", sum / n),
                                {"limit of agreement ", sum / n - reach},
                                {"limit of agreement ", sum / n + reach}})
    chart.series.push_back(
        {.name = name + fixed(y, 3), .x = {least, most}, .y = {y, y}, .dashed = true});
  chart.large = true;
  return html::line_chart(chart);
}

html::Body agreement(const TargetReport& report) {
  const std::string chart = agreement_chart(report);
  if (chart.empty()) return {};
  return chart + html::paragraph(concat(
                     "The outer lines are the mean difference ± 1.96 standard deviations: if "
                     "differences are normal, about 95 of 100 lie between them. All ",
                     rows_name(report), " count alike, also several of one patient."));
}

bool is_of_numbers(const TargetReport& report) {
  return report.scale == Scale::kNumber;
}

}  // namespace

std::span<const Section> number_sections() {
  static constexpr Section kSections[] = {
      {.heading = "Predictions",
       .applies = is_of_numbers,
       .body = [](const TargetReport& report) -> html::Body { return scatter_chart(report); },
       .drawings = {{{"predictions", scatter_chart}}}},
      {.heading = "Agreement",
       .applies = is_of_numbers,
       .body = agreement,
       .drawings = {{{"agreement", agreement_chart}}}}};
  return kSections;
}

}  // namespace coldframe::temporal

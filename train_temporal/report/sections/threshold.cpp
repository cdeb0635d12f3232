// Sensitivity, specificity and predictive values at any threshold.
#include <cmath>

#include "common/charts/data_table.h"
#include "common/text/text.h"
#include "train_temporal/report/report_text.h"
#include "train_temporal/report/sections/sections.h"

namespace coldframe::temporal {
namespace {

std::vector<std::string> row_at(double threshold, const std::vector<double>& scores,
                                const std::vector<int>& labels) {
  double at[2][2] = {};  // [truth][decision]
  for (std::size_t i = 0; i < scores.size(); ++i) at[labels[i]][scores[i] >= threshold] += 1;
  const auto [tn, fp] = at[0];
  const auto [fn, tp] = at[1];
  return {fixed(threshold, 2),
          ratio_text(tp, tp + fn),
          ratio_text(tn, tn + fp),
          ratio_text(tp, tp + fp),
          ratio_text(tn, tn + fn),
          fixed(tp, 0),
          fixed(fp, 0),
          fixed(tn, 0),
          fixed(fn, 0)};
}

struct Beginning {
  double threshold = 0.5;
  const char* origin = "";
};

// Where the page begins: at the threshold of the report's decisions.
Beginning beginning_of(const TargetReport& report) {
  if (report.questions.threshold) return {*report.questions.threshold, ", the one that was given"};
  if (report.applied_threshold)
    return {*report.applied_threshold, ", the mean of those of the models"};
  if (report.choices.empty()) return {};
  double sum = 0;
  for (const FoldChoice& choice : report.choices) sum += choice.threshold;
  return {sum / static_cast<double>(report.choices.size()),
          ", the mean of those that the folds chose on their validation parts"};
}

html::Body threshold_section(const TargetReport& report) {
  const ScoredExams all = pooled_exams(report.models.front());
  const Beginning beginning = beginning_of(report);
  std::vector<double> scores;
  std::vector<int> labels;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!std::isfinite(all.score(i, 1))) continue;
    scores.push_back(all.score(i, 1));
    labels.push_back(all.label[i]);
  }
  html::Rows rows;
  for (int tenth = 1; tenth < 10; ++tenth) rows.push_back(row_at(tenth / 10.0, scores, labels));
  html::Body table =
      html::table({"threshold", "sensitivity", "specificity", "PPV", "NPV", "true positive",
                   "false positive", "true negative", "false negative"},
                  rows);
  const Json data = {{"scores", html::packed<float>(scores)},
                     {"positive", html::packed<std::uint8_t>(labels)},
                     {"threshold", std::round(1000 * beginning.threshold) / 1000},
                     {"classes", report.classes}};
  return html::paragraph(concat(
             report.applied_threshold ? "The " : "Held-out ", rows_name(report),
             report.applied_threshold ? "" : " of all folds",
             " at one threshold for all. It begins at ", fixed(beginning.threshold, 3),
             beginning.origin,
             ". A threshold that is chosen here is chosen on the exams that it is judged by, and "
             "does somewhat worse on others.")) +
         html::with_data("threshold", "", std::move(table), data);
}

}  // namespace

std::span<const Section> threshold_sections() {
  static constexpr Section kSections[] = {{.heading = "Decisions at other thresholds",
                                           .applies = is_binary,
                                           .body = threshold_section}};
  return kSections;
}

}  // namespace coldframe::temporal

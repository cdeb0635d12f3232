// Sensitivity, specificity and predictive values at any threshold.
#include <cmath>

#include "common/charts/page_data.h"
#include "common/text/text.h"
#include "train_temporal/report/report_text.h"
#include "train_temporal/report/sections/charts.h"
#include "train_temporal/report/sections/sections.h"

namespace coldframe::temporal {
namespace {

std::string share_text(double part, double all) {
  return all > 0 ? fixed(part / all, 3) : "–";
}

std::vector<std::string> row_at(double threshold, const std::vector<double>& scores,
                                const std::vector<int>& labels) {
  double at[2][2] = {};  // [truth][decision]
  for (std::size_t i = 0; i < scores.size(); ++i) at[labels[i]][scores[i] >= threshold] += 1;
  const auto [tn, fp] = at[0];
  const auto [fn, tp] = at[1];
  return {fixed(threshold, 2),
          share_text(tp, tp + fn),
          share_text(tn, tn + fp),
          share_text(tp, tp + fp),
          share_text(tn, tn + fn),
          fixed(tp, 0),
          fixed(fp, 0),
          fixed(tn, 0),
          fixed(fn, 0)};
}

// The mean of those that the folds chose on their validation parts.
double chosen_threshold(const RunReport& report) {
  double sum = 0;
  for (const FoldChoice& choice : report.choices) sum += choice.threshold;
  const auto folds = static_cast<double>(report.choices.size());
  return folds > 0 ? std::round(1000 * sum / folds) / 1000 : 0.5;
}

std::string threshold_section(const RunReport& report) {
  const ScoredExams all = pooled_exams(report.models.front());
  std::vector<double> scores;
  std::vector<int> labels;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!std::isfinite(all.score(i, 1))) continue;
    scores.push_back(all.score(i, 1));
    labels.push_back(all.label[i]);
  }
  std::vector<std::vector<std::string>> rows;
  for (int tenth = 1; tenth < 10; ++tenth) rows.push_back(row_at(tenth / 10.0, scores, labels));
  const std::string table =
      html::table({"threshold", "sensitivity", "specificity", "PPV", "NPV", "true positive",
                   "false positive", "true negative", "false negative"},
                  rows);
  const Json data = {{"scores", html::packed<float>(scores)},
                     {"positive", html::packed<std::uint8_t>(labels)},
                     {"threshold", chosen_threshold(report)},
                     {"classes", report.classes}};
  return paragraph(concat(
             "Held-out ", rows_name(report),
             " of all folds at one threshold for all. It begins at ",
             fixed(chosen_threshold(report), 3),
             report.choices.empty() ? ""
                                    : ", the mean of those that the folds chose on their "
                                      "validation parts",
             ". A threshold that is chosen here is chosen on the exams that it is judged by, and "
             "does somewhat worse on others.")) +
         html::with_data("threshold", "threshold", table, data);
}

}  // namespace

constexpr Section kThresholdSection = {
    .heading = "Decisions at other thresholds",
    .applies = [](const RunReport& report) { return !report.models.empty() && is_binary(report); },
    .body = threshold_section};

}  // namespace coldframe::temporal

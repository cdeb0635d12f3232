// Figures are spelt here, for the report and the terminal.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "train_temporal/report/report.h"

namespace coldframe::temporal {

std::string figure_text(const MetricValue& figure);       // "0.912", or "undefined: why"
std::string interval_text(const Estimate& estimate);      // "0.912 [0.861, 0.951]"
std::string difference_text(const Estimate& difference);  // the same with a sign: "+0.081 […]"
std::string level_text(const TargetReport& report);       // "95 %", of intervals
std::string ratio_text(double part, double all);          // "0.500", "–" of none
std::string p_text(double p);                             // "0.012", "< 0.001"

// A table of the page, in which the reasons why figures have no interval stand below it.
html::Body figures_table(const std::vector<std::string>& header, html::Rows rows);

// Controls that see one of several streams are called so: "only-FA".
inline constexpr const char* kOnlyStream = "only-";

// The summary, or difference, of one metric; null when there is none.
template <class Figure>
const Figure* find_metric(const std::vector<Figure>& figures, Metric metric) {
  const auto found = std::ranges::find(figures, metric, &Figure::metric);
  return found == figures.end() ? nullptr : &*found;
}

// True for an AUROC or C of exams that different fits have scored. Holding a patient out lowers
// their class's share in the training, so that noise scores below chance (one patient at a time: a
// mean of 0.36 over 14 cohorts).
bool ranks_across_folds(const ModelResult& model, const MetricSummary& figure);

Json to_json(const Estimate& estimate);  // for summary.json
Json to_json(const MetricSummary& summary);
Json to_json(const ModelResult& model);  // its figures

std::string model_label(const ModelResult& model);  // "gru", "single, middle frame"
bool is_binary(const TargetReport& report);
bool has_classes(const TargetReport& report);
// The held-out exams of all folds of the first repeat together.
ScoredExams pooled_exams(const ModelResult& model);
// "exams" or "frames" of the data; and what figures are over, "patients" where exams are averaged.
const char* labels_name(const TargetReport& report);
std::string rows_name(const TargetReport& report);
// "mean over 5 folds", "mean over 10 folds (2 repeats of 5)" or "one held-out part".
std::string folds_text(const ModelResult& model);
// How the figure comes from the folds: the same, or "5 folds taken together".
std::string origin_text(const ModelResult& model, const MetricSummary& summary);

// The words that the folds' settings of --search have, as often as they have them: "model lstm in 3
// of 5 folds, gru in 2; inputs level in 5 of 5 folds".
std::string search_text(const std::vector<Json>& settings);

}  // namespace coldframe::temporal

// Formats numbers for the report and the terminal.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "train_temporal/report/report.h"

namespace coldframe::temporal {

std::string figure_text(const MetricValue& figure);       // "0.912", or "undefined: why"
std::string interval_text(const Estimate& estimate);      // "0.912 [0.861, 0.951]"
std::string difference_text(const Estimate& difference);  // with a sign: "+0.081 […]"
std::string level_text(const TargetReport& report);       // "95 %", of intervals
std::string ratio_text(double part, double all);          // "0.500", "–" of none
std::string p_text(double p);                             // "0.012", "< 0.001"

// A table of the page, with the reasons for missing intervals below it.
html::Body figures_table(const std::vector<std::string>& header, html::Rows rows);

// Prefix of controls that see a single stream: "only-FA".
inline constexpr const char* kOnlyStream = "only-";

// The summary, or difference, of one metric; null if there is none.
template <class Figure>
const Figure* find_metric(const std::vector<Figure>& figures, Metric metric) {
  const auto found = std::ranges::find(figures, metric, &Figure::metric);
  return found == figures.end() ? nullptr : &*found;
}

// True for an AUROC or C that pools scores of different fits. Holding out a patient lowers the
// frequency of their class in training, which biases pure noise below chance
// (leave-one-patient-out: a mean of 0.36 over 14 cohorts).
bool ranks_across_folds(const ModelResult& model, const MetricSummary& figure);

Json to_json(const Estimate& estimate);  // for summary.json
Json to_json(const MetricSummary& summary);
Json to_json(const ModelResult& model);  // its metrics

std::string model_label(const ModelResult& model);  // "gru", "single, middle frame"
bool is_binary(const TargetReport& report);
bool has_classes(const TargetReport& report);
// The pooled held-out exams of all folds of the first repeat.
ScoredExams pooled_exams(const ModelResult& model);
// "exams" or "frames" of the data; and the unit of the metrics, "patients" if exams are averaged.
const char* labels_name(const TargetReport& report);
std::string rows_name(const TargetReport& report);
// Of the first metric that is a mean over folds: "mean over 5 folds", "mean over 4 of 5 folds",
// "mean over 10 folds, 2 repeats of the split"; or "one held-out part".
std::string folds_text(const ModelResult& model);
// "5 folds", or "4 of 5 folds" where the others have no value.
std::string folds_of(const MetricSummary& summary);
// Where a fold lacks a class: "; over all folds 0.928 as the mean of the classes that each holds".
std::string present_text(const MetricSummary& summary);
// How the metric was aggregated over folds: as folds_text(), with what present_text() says, or "5
// folds taken together".
std::string origin_text(const ModelResult& model, const MetricSummary& summary);

// How often the folds chose each value in --search: "model lstm in 3 of 5 folds, gru in 2; inputs
// level in 5 of 5 folds".
std::string search_text(const std::vector<Json>& settings);

// The wording of a report for each scale of labels.

struct ScaleWords {
  Scale scale;
  // The main metric within a sentence: "an AUROC", "a quadratic kappa".
  const char* article;
  bool lower_case;
  const char* undefined;  // if no held-out part has this metric
  std::string (*about_figures)(const TargetReport&);
  const char* about_ranks;  // which metrics are means over folds
  const char* choices;      // choices on the validation part: "Early stopping" …
  const char* uncertain;    // what is uncertain if that part is small
  const char* loss;         // what curves show
  // For ranks across folds: the metric, who is similar to the one held out, and what folds would
  // hold.
  const char *rank_article, *alike, *enough;
};
const ScaleWords& words_of(Scale scale);

// At which level the verdict claims, where printed intervals are of another; "" otherwise.
std::string claims_text(const TargetReport& report);

// The sentences of a report about each control.

// Stands for a control's name: the model of another run that the report compares with.
inline constexpr std::string_view kAgainst = "{against}";

enum class ClaimCondition { kAlways, kIfLearnt, kIfLearntOrWorse };

// The sentences about a control, by how the main model compares with it. Words in braces are those
// of words_for() in report_text.cpp.
struct Claim {
  std::string_view control;  // its name, or the prefix of such names
  ClaimCondition said;
  std::string_view figures;  // the subject of the metric
  std::string_view better, worse, equal, undecided;
  std::string_view what = {};  // {What}, and in lower case {what}
  // If the control was not trained but the question arises.
  std::string_view unexamined = {};
  bool (*arises)(const TargetReport&) = nullptr;
  bool only_if_arises = false;    // true: omitted for other models
  std::string_view though = {};   // appended to `better` if the control beats chance
  bool better_if_learnt = false;  // else it is undecided
  bool worse_leads = false;       // `worse` comes first
};

// In order of appearance.
std::span<const Claim> claims();

}  // namespace coldframe::temporal

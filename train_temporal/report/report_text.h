// Figures are spelt here, for the report and the terminal.
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

// What a report says of labels on each scale.

struct ScaleWords {
  Scale scale;
  // The main metric within a sentence: "an AUROC", "a quadratic kappa".
  const char* article;
  bool lower_case;
  const char* undefined;  // where no held-out part has this
  std::string (*about_figures)(const TargetReport&);
  const char* about_ranks;  // which figures are means over folds
  const char* choices;      // "Early stopping" …, of the validation part
  const char* uncertain;    // where that part is small
  const char* loss;         // what curves show
  // Ranks across folds: what is named so, who is like the one held out, and what folds would hold.
  const char *rank_article, *alike, *enough;
};
const ScaleWords& words_of(Scale scale);

// What a report says of each control: the table of sentences.

// In place of a control's name: the model of another run that the report compares with.
inline constexpr std::string_view kAgainst = "{against}";

enum class Said { kAlways, kIfLearnt, kIfLearntOrWorse };

// What is said of a control, by how the main model compares with it. Words in braces are those of
// words_for() in report_text.cpp.
struct Claim {
  std::string_view control;  // its name, or how names of such controls begin
  Said said;
  std::string_view figures;  // what the figure is of
  std::string_view better, worse, equal, undecided;
  std::string_view what = {};  // {What}, and with a small letter {what}
  // Where the control was not trained, but the question arises.
  std::string_view unexamined = {};
  bool (*arises)(const TargetReport&) = nullptr;
  bool only_if_arises = false;    // then it is not said of other models
  std::string_view though = {};   // added to `better` where the control is better than chance
  bool better_if_learnt = false;  // else it is undecided
  bool worse_leads = false;       // then it is said before all else
};

// In the order in which they are said.
std::span<const Claim> claims();

}  // namespace coldframe::temporal

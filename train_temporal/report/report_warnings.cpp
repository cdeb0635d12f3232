// The data themselves show what to be wary of.
#include <algorithm>
#include <cmath>
#include <map>

#include "common/text/text.h"
#include "train_temporal/report/report.h"
#include "train_temporal/report/report_text.h"
#include "train_temporal/report/scale_words.h"
#include "train_temporal/report/sections/sections.h"

namespace coldframe::temporal {
namespace {

constexpr std::size_t kFewValidationPatients = 10, kFewPatients = 50;

void warn_of_held_out_parts(const TargetReport& report, std::vector<std::string>& warnings) {
  const std::vector<FoldScores>& folds = report.models.front().folds;
  for (std::size_t c = 0; c < report.classes.size(); ++c) {
    std::vector<std::string> lacking;
    for (const FoldScores& fold : folds) {
      if (std::ranges::find(fold.exams.label, static_cast<int>(c)) != fold.exams.label.end())
        continue;
      lacking.push_back(concat("repeat ", fold.repeat, ", fold ", fold.fold));
    }
    if (lacking.empty()) continue;
    const std::string who = lacking.size() == 1
                                ? concat(lacking.front(), " holds")
                                : concat(lacking.size(), " of ", folds.size(), " folds hold");
    warnings.push_back(
        concat(who, " out none of the ", rows_name(report), " of class '", report.classes[c],
               "': AUROC and AUPRC are undefined there and left out of the mean over folds"));
  }
}

// Calls `take` with each figure of the main model, and with where it is: "", or " at 365".
template <typename Take>
void visit_figures(const TargetReport& report, const Take& take) {
  for (const MetricSummary& figure : report.models.front().summary) take(figure, "");
  for (const HorizonFigures& at : report.survival.horizons)
    take(at.auroc, " at " + exact(at.horizon));
}

// Folds hold out few events, or nobody who is followed for long.
void warn_of_undefined_folds(const TargetReport& report, std::vector<std::string>& warnings) {
  if (report.scale != Scale::kTime) return;
  visit_figures(report, [&](const MetricSummary& figure, const std::string& where) {
    const auto lacking = std::ranges::find_if_not(figure.per_fold, &MetricValue::defined);
    if (!figure.by_fold || lacking == figure.per_fold.end()) return;
    const auto count = figure.per_fold.size() - static_cast<std::size_t>(std::ranges::count_if(
                                                    figure.per_fold, &MetricValue::defined));
    warnings.push_back(concat(count, " of ", figure.per_fold.size(), " folds have no ",
                              figure.metric->title, where, " (", lacking->undefined,
                              "): it is the mean over the others"));
  });
}

void warn_of_ranks_across_folds(const TargetReport& report, std::vector<std::string>& warnings) {
  const ModelResult& model = report.models.front();
  const ScaleWords& words = words_of(report.scale);
  std::vector<std::string> figures;
  visit_figures(report, [&](const MetricSummary& figure, const std::string& where) {
    if (ranks_across_folds(model, figure))
      figures.push_back(concat(words.rank_article, figure.metric->title, where));
  });
  if (figures.empty()) return;
  warnings.push_back(concat(
      join(figures, ", "), figures.size() > 1 ? " rank" : " ranks",
      " exams of different folds together. Holding a patient out lowers the share of ", words.alike,
      " in the training and pulls the figure below chance, so a value below 0.5 shows nothing. "
      "Folds that hold ",
      words.enough, " (--folds 5) avoid this"));
}

// The figures that have a value but no interval, by the reason.
void warn_of_missing_intervals(const TargetReport& report, std::vector<std::string>& warnings) {
  std::map<std::string, std::vector<std::string>> figures;
  for (const MetricSummary& summary : report.models.front().summary) {
    const Estimate& estimate = summary.primary();
    if (summary.metric->shape == Shape::kNone || !estimate.value.defined() ||
        estimate.low.defined())
      continue;
    figures[estimate.low.undefined].emplace_back(summary.metric->title);
  }
  for (const auto& [why, names] : figures) {
    warnings.push_back(concat("no interval for ", join(names, ", "), ": ", why));
  }
}

void warn_of_validation_parts(const TargetReport& report, std::vector<std::string>& warnings) {
  std::size_t small = 0, least = kFewValidationPatients;
  for (const FoldChoice& choice : report.choices) {
    small += choice.validation.patients < kFewValidationPatients;
    least = std::min(least, choice.validation.patients);
  }
  if (small == 0) return;
  warnings.push_back(concat("small validation parts: in ", small, " of ",
                            plural(report.choices.size(), "fold"), " fewer than ",
                            kFewValidationPatients, " patients (least: ", least, "). ",
                            words_of(report.scale).uncertain));
}

void warn_of_diverged_models(const TargetReport& report, std::vector<std::string>& warnings) {
  for (const ModelResult& model : report.models) {
    const bool finite = std::ranges::all_of(model.folds, [](const FoldScores& fold) {
      return std::ranges::all_of(fold.exams.predicted, [](double p) { return std::isfinite(p); });
    });
    if (finite) continue;
    warnings.push_back(concat(model.name,
                              " predicts values that are not numbers: its training diverged (try a "
                              "lower learning rate)"));
  }
}

void warn_of_few_patients(const TargetReport& report, std::vector<std::string>& warnings) {
  if (report.data.patients == 0 || report.data.patients >= kFewPatients) return;
  warnings.push_back(concat("few patients: ", report.data.patients,
                            ": intervals are wide, and differences that matter may go unseen"));
}

}  // namespace

bool ranks_across_folds(const ModelResult& model, const MetricSummary& figure) {
  return figure.metric->chance > 0 && figure.primary().value.defined() && !figure.by_fold &&
         model.folds.size() > 1;
}

std::vector<std::string> data_warnings(const TargetReport& report) {
  std::vector<std::string> warnings;
  for (const auto warn : {warn_of_diverged_models, warn_of_held_out_parts, warn_of_undefined_folds,
                          warn_of_ranks_across_folds, warn_of_missing_intervals,
                          warn_of_validation_parts, warn_of_groups, warn_of_few_patients})
    warn(report, warnings);
  return warnings;
}

std::vector<std::string> all_warnings(const TargetReport& report) {
  std::vector<std::string> warnings = report.warnings;
  const std::vector<std::string> of_data = data_warnings(report);
  warnings.insert(warnings.end(), of_data.begin(), of_data.end());
  return warnings;
}

}  // namespace coldframe::temporal

#include "train_temporal/run/results/results.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "common/files/csv.h"
#include "common/text/text.h"
#include "train_temporal/models/registry.h"
#include "train_temporal/models/summary/summaries.h"
#include "train_temporal/run/predictions.h"
#include "train_temporal/run/results/characteristics.h"
#include "train_temporal/run/results/overview.h"
#include "train_temporal/splits/label_values.h"
#include "train_temporal/tasks/task_kind.h"

namespace coldframe::temporal {
namespace {

void add_share(std::vector<double>& sum, const std::vector<double>& values, double share) {
  sum.resize(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) sum[i] += share * values[i];
}

// n − 1; empty with one seed.
std::vector<double> deviations(const std::vector<std::vector<double>>& seeds,
                               const std::vector<double>& mean) {
  if (seeds.size() < 2) return {};
  std::vector<double> result(mean.size(), 0.0);
  for (std::size_t i = 0; i < mean.size(); ++i) {
    for (const auto& one : seeds) result[i] += (one[i] - mean[i]) * (one[i] - mean[i]);
    result[i] = std::sqrt(result[i] / static_cast<double>(seeds.size() - 1));
  }
  return result;
}

// The rows of a part that have a label.
struct LabelledRows {
  std::vector<std::size_t> row;
  std::vector<double> label;
};

LabelledRows labelled_rows(const Labels& labels, const std::vector<std::size_t>& exams) {
  LabelledRows result;
  std::size_t next = 0;
  for (std::size_t exam : exams) {
    for (std::size_t row = 0; row < labels.rows(exam); ++row, ++next) {
      if (std::isnan(labels.at(exam, row))) continue;
      result.row.push_back(next);
      result.label.push_back(labels.at(exam, row));
    }
  }
  return result;
}

// `table`: of all rows [n, width]; empty: nothing is known of this part.
LabelledOutputs at_rows(std::span<const double> table, std::size_t width,
                        const LabelledRows& rows) {
  if (table.empty()) return {};
  LabelledOutputs result{{}, rows.label};
  for (std::size_t row : rows.row) {
    for (std::size_t c = 0; c < width; ++c) result.outputs.push_back(table[row * width + c]);
  }
  return result;
}

TargetScores assemble_target(std::span<const FinishedFit> seeds, const Targets& targets,
                             std::size_t t, std::optional<double> given) {
  const Labels& labels = targets[t];
  const Split& split = *seeds.front().split;
  const std::size_t outputs = labels.outputs();
  const LabelledRows training = labelled_rows(labels, split.train);
  const LabelledRows validation = labelled_rows(labels, split.validation);
  const double share = 1.0 / static_cast<double>(seeds.size());
  const auto own = [&](const std::vector<double>& table) {
    return columns(table, targets.outputs(), targets.first_output(t), outputs);
  };
  TargetScores result;
  std::vector<std::vector<double>> validation_scores;
  for (const FinishedFit& fit : seeds) {
    Readout reading = reading_of(labels, split.train);
    labels.kind().learn_outputs(reading, at_rows(own(fit.record.train_logits), outputs, training),
                                at_rows(own(fit.record.validation_logits), outputs, validation));
    validation_scores.push_back(scores_of(labels, reading, own(fit.record.validation_logits)));
    add_share(result.validation, validation_scores.back(), share);
    add_share(result.scores, scores_of(labels, reading, own(fit.record.test_logits)), share);
    result.readings.push_back(reading);
    if (const auto& families = fit.record.families; !families.empty())
      result.families.push_back(
          family_name(static_cast<Family>(families[targets.first_output(t)])));
  }
  result.spread = deviations(validation_scores, result.validation);
  const auto judged = at_rows(result.validation, labels.scores(), validation);
  const double chosen = labels.kind().threshold(judged.outputs, judged.label);
  for (Readout& reading : result.readings)
    reading.threshold = labels.binary() && given ? *given : chosen;
  result.decision = decide(labels, result.scores, result.threshold());
  return result;
}

FoldResult assemble_fold(std::span<const FinishedFit> seeds, const Targets& targets,
                         std::optional<double> threshold) {
  FoldResult fold{seeds.front().split, {}};
  for (std::size_t t = 0; t < targets.size(); ++t) {
    fold.targets.push_back(assemble_target(seeds, targets, t, threshold));
  }
  return fold;
}

// The exam of every row that has a label.
std::vector<std::size_t> exams_of_rows(const Labels& labels,
                                       const std::vector<std::size_t>& exams) {
  std::vector<std::size_t> result;
  for (std::size_t exam : exams) {
    for (std::size_t row = 0; row < labels.rows(exam); ++row)
      if (!std::isnan(labels.at(exam, row))) result.push_back(exam);
  }
  return result;
}

// The rows of a fold, and an exam that each is of.
struct FoldRows {
  FoldScores scores;
  std::vector<std::size_t> exam;
};

// Rows of one unit become one, at the place of the first: its probabilities are their mean.
FoldRows averaged(const FoldRows& rows, const Target& target, double threshold,
                  const std::vector<std::size_t>& unit_of) {
  std::map<std::size_t, std::size_t> place;  // of each unit
  std::vector<std::size_t> first, into;
  for (std::size_t i = 0; i < rows.exam.size(); ++i) {
    const auto [known, added] = place.emplace(unit_of[rows.exam[i]], first.size());
    if (added) first.push_back(i);
    into.push_back(known->second);
  }
  FoldRows result{{rows.scores.repeat, rows.scores.fold, {}, {}, rows.scores.drawn_from}, {}};
  ScoredExams& exams = result.scores.exams = exams_at(rows.scores.exams, first);
  std::ranges::fill(exams.probability, 0.0);
  std::vector<double> count(first.size(), 0.0);
  const std::size_t width = exams.classes;
  for (std::size_t i = 0; i < into.size(); ++i) {
    count[into[i]] += 1;
    for (std::size_t c = 0; c < width; ++c)
      exams.probability[into[i] * width + c] += rows.scores.exams.score(i, c);
  }
  for (std::size_t i = 0; i < exams.probability.size(); ++i)
    exams.probability[i] /= count[i / width];
  exams.decision = decide(target, exams.probability, threshold);
  for (std::size_t i : first) {
    result.scores.patient.push_back(rows.scores.patient[i]);
    result.exam.push_back(rows.exam[i]);
  }
  return result;
}

FoldRows rows_of_fold(const FoldResult& fold, const Cohort& cohort, std::size_t target,
                      const ResolvedQuestions& asked) {
  const Labels& labels = cohort.targets[target];
  const TargetScores& all = fold.targets[target];
  FoldRows rows{{fold.split->repeat, fold.split->fold, {}, {}},
                exams_of_rows(labels, fold.split->test)};
  rows.scores.exams = scored_rows(labels, fold.split->test, all.scores, all.decision);
  for (std::size_t exam : fold.split->test)
    rows.scores.drawn_from.push_back(cohort.patient_number[exam]);
  for (std::size_t exam : rows.exam) rows.scores.patient.push_back(cohort.patient_number[exam]);
  return asked.unit.empty() ? rows : averaged(rows, labels, all.threshold(), asked.unit);
}

std::vector<std::string> header_of(const Cohort& cohort) {
  std::vector<std::string> header = {"repeat", "fold", "exam", "patient"};
  if (cohort.targets.per_frame()) header.push_back("frame");
  add_header(header, cohort.targets.list(), WithLabels::kYes);
  return header;
}

// The rows of one part of a fold, whose scores are those of `part`.
std::vector<std::vector<std::string>> rows_of(const FoldResult& fold,
                                              const std::vector<std::size_t>& exams,
                                              std::vector<double> TargetScores::*part,
                                              const Cohort& cohort) {
  const std::vector<Target> targets = cohort.targets.list();
  std::vector<std::vector<int>> decisions;
  for (std::size_t t = 0; t < targets.size(); ++t) {
    const TargetScores& all = fold.targets[t];
    decisions.push_back(decide(targets[t], all.*part, all.threshold()));
  }
  std::vector<std::vector<std::string>> rows;
  for (std::size_t exam : exams) {
    const std::vector<std::size_t> slots = present_slots(cohort.exams()[exam]);
    for (std::size_t i = 0; i < cohort.targets.rows(exam); ++i) {
      const std::size_t next = rows.size();
      std::vector<std::string> row = {concat(fold.split->repeat), concat(fold.split->fold),
                                      cohort.exams()[exam].id, cohort.patients[exam]};
      if (cohort.targets.per_frame()) row.push_back(concat(slots[i]));
      for (std::size_t t = 0; t < targets.size(); ++t) {
        const std::size_t width = targets[t].scores();
        add_label(row, targets[t], cohort.targets[t].at(exam, i));
        const std::span<const double> scores(fold.targets[t].*part);
        add_prediction(row, targets[t], scores.subspan(next * width, width), decisions[t][next]);
      }
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

}  // namespace

std::vector<ModelFolds> assemble(const std::vector<FinishedFit>& fits, const Targets& targets,
                                 std::size_t seeds, std::optional<double> threshold) {
  std::vector<ModelFolds> models;
  for (std::size_t start = 0; start < fits.size(); start += seeds) {
    const std::string& model = fits[start].name.model;
    if (models.empty() || models.back().model != model) models.push_back({model, {}});
    models.back().folds.push_back(
        assemble_fold(std::span(fits).subspan(start, seeds), targets, threshold));
  }
  return models;
}

void add_model(RunReport& report, const ModelFolds& folds, const std::string& frame,
               const Cohort& cohort, std::size_t target, const ResolvedQuestions& asked) {
  ModelResult& result = report.models.emplace_back();
  result.name = folds.model;
  result.about = about_model(folds.model, report.per_frame, !report.covariates.empty());
  const NamedModel* model = find_model(folds.model);
  result.learns_order = model != nullptr && model->learns_order();
  result.frame = frame;
  for (const FoldResult& fold : folds.folds) {
    result.folds.push_back(rows_of_fold(fold, cohort, target, asked).scores);
    if (const auto& families = fold.targets[target].families; !families.empty())
      result.families.push_back(families);
  }
}

void describe_asked(RunReport& report, const ModelFolds& folds, const Cohort& cohort,
                    std::size_t target, const std::vector<std::size_t>& used,
                    const ResolvedQuestions& asked) {
  report.questions = asked.questions;
  report.characteristics = characteristics_of(cohort, target, used, asked);
  if (asked.columns.empty()) return;
  std::vector<std::vector<std::size_t>> exams;  // of each fold's rows
  for (const FoldResult& fold : folds.folds)
    exams.push_back(rows_of_fold(fold, cohort, target, asked).exam);
  for (const auto& [name, values] : asked.columns) {
    SubgroupColumn& column = report.subgroups.emplace_back();
    column.column = name;
    column.values = distinct(cohort.of_labeled(values));
    for (std::size_t f = 0; f < exams.size(); ++f) {
      const bool first_repeat = folds.folds[f].split->repeat == folds.folds.front().split->repeat;
      auto& value_of = column.value_of.emplace_back();
      for (std::size_t exam : exams[f]) {
        const auto found = std::ranges::find(column.values, values[exam]);
        value_of.push_back(static_cast<std::size_t>(found - column.values.begin()));
        column.without_value += first_repeat && found == column.values.end();
      }
    }
  }
}

void describe_target(RunReport& report, const Cohort& cohort, std::size_t target,
                     const std::vector<std::size_t>& used) {
  const Labels& labels = cohort.targets[target];
  report.target = labels.name;
  report.event = labels.event;
  report.task = task_name(labels.task);
  report.scale = labels.scale();
  report.per_frame = labels.per_frame;
  report.classes = labels.classes;
  report.data = overview(cohort, target, used);
  if (cohort.copies_across_parts) report.seen = Seen::kCopies;
}

std::string predictions_csv(const ModelFolds& folds, const Cohort& cohort) {
  std::string csv = csv_row(header_of(cohort));
  for (const FoldResult& fold : folds.folds) {
    for (const auto& row : rows_of(fold, fold.split->test, &TargetScores::scores, cohort)) {
      csv += csv_row(row);
    }
  }
  return csv;
}

std::string validation_csv(const ModelFolds& folds, const Cohort& cohort) {
  std::vector<std::string> header = header_of(cohort);
  const std::vector<Target> targets = cohort.targets.list();
  for (const Target& target : targets) {
    const std::string prefix = targets.size() > 1 ? target.name + ":sd" : "sd";
    for (const std::string& name : target.kind().score_names(target))
      header.push_back(prefix + (name.empty() ? "" : "_") + name);
  }
  std::string csv = csv_row(header);
  for (const FoldResult& fold : folds.folds) {
    auto rows = rows_of(fold, fold.split->validation, &TargetScores::validation, cohort);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      for (std::size_t t = 0; t < targets.size(); ++t) {
        const std::vector<double>& spread = fold.targets[t].spread;
        const std::size_t width = targets[t].scores();
        for (std::size_t c = 0; c < width; ++c)
          rows[i].push_back(spread.empty() ? "" : exact(spread[i * width + c]));
      }
      csv += csv_row(rows[i]);
    }
  }
  return csv;
}

std::string epochs_csv(const std::vector<FinishedFit>& fits) {
  std::string csv = csv_row({"model", "repeat", "fold", "seed", "epoch", "train_loss",
                             "validation_loss", "learning_rate", "best"});
  for (const FinishedFit& fit : fits) {
    const FitName& name = fit.name;
    for (std::size_t epoch = 0; epoch < fit.record.history.size(); ++epoch) {
      const EpochLosses& losses = fit.record.history[epoch];
      csv += csv_row({name.model, std::to_string(name.repeat), std::to_string(name.fold),
                      std::to_string(name.seed), std::to_string(epoch), exact(losses.train),
                      exact(losses.validation), exact(losses.learning_rate),
                      epoch == fit.record.best_epoch ? "1" : "0"});
    }
  }
  return csv;
}

}  // namespace coldframe::temporal

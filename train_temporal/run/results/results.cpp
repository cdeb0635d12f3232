#include "train_temporal/run/results/results.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "common/files/csv.h"
#include "common/text/text.h"
#include "train_temporal/models/registry.h"
#include "train_temporal/models/summary/summaries.h"
#include "train_temporal/run/predictions.h"
#include "train_temporal/run/results/characteristics.h"
#include "train_temporal/run/results/overview.h"
#include "train_temporal/splits/labels.h"
#include "train_temporal/tasks/task_kind.h"

namespace coldframe::temporal {
namespace {

void add_share(std::vector<double>& sum, const std::vector<double>& values, double share) {
  sum.resize(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) sum[i] += share * values[i];
}

void append(std::vector<double>& to, const std::vector<double>& more) {
  to.insert(to.end(), more.begin(), more.end());
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

// Appends [rows, scores] of a target to the columns of its scores.
void add_deviations(PredictionTable& table, std::size_t target, const std::vector<double>& values) {
  const std::size_t width = table.targets[target].scores();
  std::size_t first = 0;
  for (std::size_t t = 0; t < target; ++t) first += table.targets[t].scores();
  for (std::size_t i = 0; i < values.size(); ++i)
    table.more[first + i % width].values.push_back(values[i]);
}

// The rows of a part that have a label. `table`: of all rows [n, width]; empty: nothing is known of
// this part.
LabelledOutputs labelled(const Labels& labels, const std::vector<std::size_t>& exams,
                         std::span<const double> table, std::size_t width) {
  LabelledOutputs result;
  std::size_t next = 0;
  for (std::size_t exam : table.empty() ? std::vector<std::size_t>() : exams) {
    for (std::size_t row = 0; row < labels.rows(exam); ++row, ++next) {
      const double label = labels.at(exam, row);
      if (std::isnan(label)) continue;
      const auto own = table.subspan(next * width, width);
      result.outputs.insert(result.outputs.end(), own.begin(), own.end());
      result.label.push_back(label);
    }
  }
  return result;
}

// Adds what a fold's fits say of one target to both tables, and returns how their outputs are read.
FoldReadout add_target(ModelPredictions& model, std::span<const FinishedFit> seeds,
                       const Targets& targets, std::size_t t, std::optional<double> given) {
  const Labels& labels = targets[t];
  const Split& split = *seeds.front().split;
  const std::size_t outputs = labels.outputs();
  const double share = 1.0 / static_cast<double>(seeds.size());
  const auto own = [&](const std::vector<double>& table) {
    return columns(table, targets.outputs(), targets.first_output(t), outputs);
  };
  FoldReadout result;
  std::vector<double> test_mean, validation_mean;
  std::vector<std::vector<double>> validation_scores;
  for (const FinishedFit& fit : seeds) {
    Readout readout = readout_of(labels, split.train);
    const auto& families = fit.record.families;
    LabelledOutputs held_out =
        labelled(labels, split.validation, own(fit.record.validation_logits), outputs);
    held_out.calibrated = !families.empty();
    labels.kind().learn_outputs(
        readout, labelled(labels, split.train, own(fit.record.train_logits), outputs), held_out);
    validation_scores.push_back(scores_of(labels, readout, own(fit.record.validation_logits)));
    add_share(validation_mean, validation_scores.back(), share);
    const std::vector<double> scores = scores_of(labels, readout, own(fit.record.test_logits));
    add_share(test_mean, scores, share);
    if (seeds.size() > 1) append(model.fits[t][result.seeds.size()], scores);
    result.seeds.push_back(readout);
    result.families.push_back(
        families.empty() ? kNoFamily
                         : family_name(static_cast<Family>(families[targets.first_output(t)])));
  }
  const auto judged = labelled(labels, split.validation, validation_mean, labels.scores());
  const double chosen = labels.kind().threshold(judged.outputs, judged.label);
  for (Readout& readout : result.seeds)
    readout.threshold = labels.has_threshold() && given ? *given : chosen;
  add_scores(model.held_out, t, test_mean, result.threshold());
  add_scores(model.validation, t, validation_mean, result.threshold());
  add_deviations(model.validation, t, deviations(validation_scores, validation_mean));
  return result;
}

void add_fold(ModelPredictions& model, std::span<const FinishedFit> seeds, const Cohort& cohort,
              std::optional<double> threshold) {
  const Split& split = *seeds.front().split;
  if (seeds.size() > 1)
    model.fits.resize(cohort.targets.size(), std::vector<std::vector<double>>(seeds.size()));
  model.splits.push_back(&split);
  add_rows(model.held_out, cohort.exams(), split.test, &cohort.targets, split.repeat, split.fold);
  add_rows(model.validation, cohort.exams(), split.validation, &cohort.targets, split.repeat,
           split.fold);
  auto& readouts = model.readouts.emplace_back();
  for (std::size_t t = 0; t < cohort.targets.size(); ++t)
    readouts.push_back(add_target(model, seeds, cohort.targets, t, threshold));
}

FoldChoice::Part size_of(const std::vector<std::size_t>& exams, const Cohort& cohort) {
  std::set<std::size_t> patients;
  for (std::size_t exam : exams) patients.insert(cohort.patient_number[exam]);
  return {exams.size(), patients.size()};
}

FoldChoice choice_of(const Split& split, const FoldReadout& readout, const Cohort& cohort) {
  FoldChoice result{split.repeat, split.fold, size_of(split.train, cohort),
                    size_of(split.validation, cohort), size_of(split.test, cohort)};
  result.temperature = 0;
  for (const Readout& one : readout.seeds)
    result.temperature += one.temperature / static_cast<double>(readout.seeds.size());
  result.threshold = readout.threshold();
  return result;
}

void add_model(TargetReport& report, const ModelPredictions& model, std::size_t target,
               const ResolvedQuestions& asked) {
  ModelResult& result = report.models.emplace_back();
  result.name = model.model;
  result.about = about_model(model.model, report.per_frame, !report.covariates.empty());
  result.sequence_model =
      is_twin(model.model) ? report.models.front().sequence_model : model.sequence_model;
  result.learns_order = std::ranges::any_of(split(model.model, '/'), [](const std::string& kind) {
    const NamedModel* known = find_model(kind);  // a search may have taken several kinds
    return known != nullptr && known->learns_order();
  });
  result.frame = model.frame;
  result.folds = labelled_folds(model.held_out, target, asked.unit);
  if (!model.fits.empty())
    for (const std::vector<double>& scores : model.fits[target])
      result.fits.push_back(
          labelled_folds(rescored(model.held_out, target, scores), target, asked.unit));
  for (const auto& readouts : model.readouts) result.families.push_back(readouts[target].families);
  const auto none = [](const auto& fold) {
    return std::ranges::all_of(fold, [](const std::string& one) { return one == kNoFamily; });
  };
  if (model.model != kAutoModel && std::ranges::all_of(result.families, none))
    result.families.clear();
}

void describe_asked(TargetReport& report, const Cohort& cohort, std::size_t target,
                    const std::vector<std::size_t>& used, const ResolvedQuestions& asked) {
  report.questions = asked.questions;
  report.characteristics = characteristics_of(cohort, target, used, asked);
  for (const auto& [name, values] : asked.columns) {
    SubgroupColumn& column = report.subgroups.emplace_back();
    column.column = name;
    column.values = distinct(cohort.of_labeled(values));
    for (const std::string& value : values) {
      const auto found = std::ranges::find(column.values, value);
      column.value_of.push_back(static_cast<std::size_t>(found - column.values.begin()));
    }
  }
}

// sd_<class>…, the standard deviations over the seeds.
std::vector<PredictionTable::Column> deviation_columns(const std::vector<Target>& targets) {
  std::vector<PredictionTable::Column> all;
  for (const Target& target : targets) {
    const std::string prefix = targets.size() > 1 ? target.name + ":sd" : "sd";
    for (const std::string& name : target.kind().score_names(target))
      all.push_back({prefix + (name.empty() ? "" : "_") + name, {}});
  }
  return all;
}

}  // namespace

PredictionTable table_of(const Cohort& cohort) {
  return empty_table(cohort.targets.list(), cohort.exams(), cohort.patients, cohort.patient_number);
}

std::vector<ModelPredictions> assemble(const std::vector<FinishedFit>& fits, const Cohort& cohort,
                                       const TrainOptions& options,
                                       std::optional<double> threshold) {
  std::vector<ModelPredictions> models;
  for (std::size_t start = 0; start < fits.size(); start += options.seeds) {
    const std::string& name = fits[start].name.model;
    if (models.empty() || models.back().model != name) {
      const bool one_frame = name == kSingle && !cohort.targets.per_frame();
      models.push_back({name,
                        one_frame ? options.single_frame : "",
                        name == kAutoModel ? kGru.name : "",
                        table_of(cohort),
                        table_of(cohort),
                        {},
                        {}});
      models.back().validation.more = deviation_columns(cohort.targets.list());
    }
    add_fold(models.back(), std::span(fits).subspan(start, options.seeds), cohort, threshold);
  }
  return models;
}

RunReport report_of(const std::vector<ModelPredictions>& models, const RunFacts& run,
                    const Cohort& cohort, const std::vector<std::size_t>& used,
                    const ResolvedQuestions& asked) {
  const ModelPredictions& main = models.front();
  RunReport result;
  for (std::size_t t = 0; t < cohort.targets.size(); ++t) {
    TargetReport& report = result.targets.emplace_back();
    static_cast<RunFacts&>(report) = run;
    describe_target(report, cohort.targets[t]);
    report.data = overview(cohort, t, used);
    if (cohort.copies_across_parts) report.seen = Seen::kCopies;
    if (t == 0) report.warnings = cohort.warnings;
    describe_asked(report, cohort, t, used, asked);
    for (const ModelPredictions& model : models) add_model(report, model, t, asked);
    for (std::size_t f = 0; f < main.splits.size(); ++f)
      report.choices.push_back(choice_of(*main.splits[f], main.readouts[f][t], cohort));
  }
  evaluate_report(result);
  return result;
}

void describe_target(TargetReport& report, const Target& target) {
  report.target = target.name;
  report.event = target.event;
  report.task = task_name(target.task);
  report.scale = target.scale();
  report.per_frame = target.per_frame;
  report.classes = target.classes;
  report.groups = target.kind().group_names(target);
}

std::string epochs_csv(const std::vector<FinishedFit>& fits) {
  std::string csv = csv_row({"model", "repeat", "fold", "seed", "epoch", "train_loss",
                             "validation_loss", "validation_figure", "learning_rate", "best"});
  for (const FinishedFit& fit : fits) {
    const FitName& name = fit.name;
    for (std::size_t epoch = 0; epoch < fit.record.history.size(); ++epoch) {
      const EpochLosses& losses = fit.record.history[epoch];
      csv += csv_row({name.model, std::to_string(name.repeat), std::to_string(name.fold),
                      std::to_string(name.seed), std::to_string(epoch), exact(losses.train),
                      exact(losses.validation), losses.measured ? exact(*losses.measured) : "",
                      exact(losses.learning_rate), epoch == fit.record.best_epoch ? "1" : "0"});
    }
  }
  return csv;
}

}  // namespace coldframe::temporal

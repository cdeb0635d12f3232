// Fits become predictions: each seed is read by what was learnt from its training and validation
// part (see Readout), seeds are averaged, decisions are made at the threshold.
#pragma once

#include <string>
#include <vector>

#include "train_temporal/report/study.h"
#include "train_temporal/run/cohort/cohort.h"
#include "train_temporal/run/cross_validation.h"
#include "train_temporal/run/results/resolved_questions.h"

namespace coldframe::temporal {

// The test part of one fold of one model, as one target sees it.
struct TargetScores {
  std::vector<Readout> readings;  // by seed; the threshold is that of all seeds
  std::vector<double> scores;     // [rows of the test part, Target::scores()]
  std::vector<int> decision;      // [rows]
  // Of the validation part: the scores likewise, and their standard deviation over the seeds (empty
  // with one).
  std::vector<double> validation = {}, spread = {};
  std::vector<std::string> families = {};  // by seed: the summaries that `summary` chose

  double threshold() const { return readings.front().threshold; }
};

// One fold of one model.
struct FoldResult {
  const Split* split;
  std::vector<TargetScores> targets;
};

struct ModelFolds {
  std::string model;
  std::vector<FoldResult> folds;
};

// Fits come as run_fits() orders them: `seeds` of a fold in a row. Binary decisions are made at
// `threshold`, or at the one that the validation part chooses.
std::vector<ModelFolds> assemble(const std::vector<FinishedFit>& fits, const Targets& targets,
                                 std::size_t seeds, std::optional<double> threshold = {});

// Adds a model of the report's target: the exams, or frames, that have a label, averaged as asked.
// `frame`: what `single` sees. The report has its covariates.
void add_model(RunReport& report, const ModelFolds& folds, const std::string& frame,
               const Cohort& cohort, std::size_t target, const ResolvedQuestions& asked);

// The questions of the report, the groups that its rows are in and what describes the cohort.
void describe_asked(RunReport& report, const ModelFolds& folds, const Cohort& cohort,
                    std::size_t target, const std::vector<std::size_t>& used,
                    const ResolvedQuestions& asked);

// The part of a report that says what the target is and which data of `used` it has.
void describe_target(RunReport& report, const Cohort& cohort, std::size_t target,
                     const std::vector<std::size_t>& used);

// repeat,fold,exam,patient,label,p_<class>…,predicted, see predictions.h
std::string predictions_csv(const ModelFolds& folds, const Cohort& cohort);
// The same of the validation parts, which chose epochs, temperatures and thresholds, and at the end
// sd_<class>…, the standard deviations over the seeds (empty with one).
std::string validation_csv(const ModelFolds& folds, const Cohort& cohort);
// model,repeat,fold,seed,epoch,train_loss,validation_loss,learning_rate,best
std::string epochs_csv(const std::vector<FinishedFit>& fits);

}  // namespace coldframe::temporal

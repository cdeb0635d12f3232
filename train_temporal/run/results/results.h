// Fits become predictions: each seed is read by what was learnt from its training and validation
// part (see Readout), seeds are averaged, decisions are made at the threshold.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "train_temporal/report/run_report.h"
#include "train_temporal/run/cohort/cohort.h"
#include "train_temporal/run/cross_validation.h"
#include "train_temporal/run/predictions.h"
#include "train_temporal/run/results/resolved_questions.h"

namespace coldframe::temporal {

// What one fold has learnt to read of a target's outputs.
struct FoldReadout {
  std::vector<Readout> seeds;         // the threshold is that of all of them
  std::vector<std::string> families;  // by fit: of the summary that it is, or kNoFamily

  double threshold() const { return seeds.front().threshold; }
};

// What one model says of all exams that its fits have held out, or validated with.
struct ModelPredictions {
  std::string model;
  std::string frame;           // of `single` on one frame: which it sees
  std::string sequence_model;  // of `auto`: what it takes where it takes no summary
  PredictionTable held_out, validation;
  std::vector<const Split*> splits;
  std::vector<std::vector<FoldReadout>> readouts;  // [split][target]
  // [target][fit] the scores of `held_out` by each of several fits alone; empty: there is one.
  std::vector<std::vector<std::vector<double>>> fits = {};
};

// Fits come as run_fits() orders them: `seeds` of a fold in a row. Seeds are averaged; validation
// predictions have their standard deviations beside them. Binary decisions are made at `threshold`,
// or at the one that the validation part chooses.
std::vector<ModelPredictions> assemble(const std::vector<FinishedFit>& fits, const Cohort& cohort,
                                       const TrainOptions& options,
                                       std::optional<double> threshold = {});

// A table without rows yet.
PredictionTable table_of(const Cohort& cohort);

// The report on models, the first of which is the main one, with all figures: of each target the
// exams of `used`, or frames, that have a label, averaged as asked.
RunReport report_of(const std::vector<ModelPredictions>& models, const RunFacts& run,
                    const Cohort& cohort, const std::vector<std::size_t>& used,
                    const ResolvedQuestions& asked);

// Says which target a report is on.
void describe_target(TargetReport& report, const Target& target);

// model,repeat,fold,seed,epoch,train_loss,validation_loss,learning_rate,best
std::string epochs_csv(const std::vector<FinishedFit>& fits);

}  // namespace coldframe::temporal

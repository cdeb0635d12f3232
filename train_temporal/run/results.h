// A run's results: questions, characteristics, held-out groups, the report's tables.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cache/store/pictures.h"
#include "train_temporal/labels/target.h"
#include "train_temporal/report/report.h"
#include "train_temporal/report/report_files.h"
#include "train_temporal/run/cohort.h"
#include "train_temporal/run/cross_validation.h"
#include "train_temporal/run/predictions.h"

namespace coldframe::temporal {

// The questions to a report, as the exams of a cohort answer them.

struct ResolvedQuestions {
  Questions questions;
  // Exams of one number are averaged; empty: every exam counts by itself.
  std::vector<std::size_t> unit;
  using Columns = std::vector<std::pair<std::string, std::vector<std::string>>>;
  Columns columns, characteristics;  // of the subgroups, and those that describe the cohort
};

// ConfigError where targets have no answer: decisions that are none, one threshold of several,
// borders of phases.
void check_answerable(const Questions& questions, const std::vector<Target>& targets);

// Those of a run: groups that are held out one at a time are told apart as subgroups are.
Questions questions_of(const TrainOptions& options, Cohort& cohort);

// ConfigError where the targets or columns cannot answer: no binary target, several for one
// threshold, a value per frame to aggregate, a column that is no grouping, or of too many values
// for a table. DataError where exams to be averaged differ in a label or in a column of the
// subgroups. Values that are taken as one become warnings of the cohort.
ResolvedQuestions ask(Cohort& cohort, const Questions& questions);

// Fits become predictions: each seed is read by what was learnt from its training and validation
// part (see Readout), seeds are averaged, decisions are made at the threshold.

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

// Two finished runs on the exams that both have held out, from what their folders say.

// The runs as the two models of a report: the first is the main one. Where both divided the exams
// alike, figures are taken fold by fold, else with all exams of a repeat together; times to an
// event are compared at the horizons of both. DataError where exams have different labels, or no
// exam is held out by both, or no horizon common to both.
RunReport compare_held_out(const std::filesystem::path& run, const std::filesystem::path& against,
                           const BootstrapOptions& bootstrap, const Questions& questions);

// ConfigError unless `run` is a finished run that learnt these targets; DataError where times to an
// event have no horizon in common.
void require_comparable(const std::filesystem::path& run, const std::vector<Target>& targets);

// ConfigError unless both learnt the same targets; a time to an event by any task, up to any
// horizons.
void require_same_question(const std::vector<Target>& a, const std::string& name_a,
                           const std::vector<Target>& b, const std::string& name_b);

// The held-out exams that the page of a report shows one by one.

// Sets `held_out` and `picture_note`: exams of the first repeat and the first target that have a
// label, with pictures of the largest errors first and of a sample of right answers between them.
// None where targets are of frames or times.
void show_held_out(const ModelPredictions& main, const Cohort& cohort, cache::Pictures& pictures,
                   TargetReport& report);

}  // namespace coldframe::temporal

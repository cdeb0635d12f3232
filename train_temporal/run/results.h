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

// The questions to a report, resolved for the exams of a cohort.

struct ResolvedQuestions {
  Questions questions;
  // Exams with the same number are averaged; empty: no averaging.
  std::vector<std::size_t> unit;
  using Columns = std::vector<std::pair<std::string, std::vector<std::string>>>;
  Columns columns, characteristics;  // for subgroups, and for the table of the cohort
};

// ConfigError if the targets cannot answer: no binary target, or one threshold for several.
void check_answerable(const Questions& questions, const std::vector<Target>& targets);

// The questions of a run: groups that are held out one at a time become subgroups.
Questions questions_of(const TrainOptions& options, Cohort& cohort);

// ConfigError if targets or columns cannot answer: no binary target, several targets for one
// threshold, per-frame values to aggregate, a column that is not a grouping or has too many values
// for a table. DataError if exams to be averaged differ in a label or in a subgroup column. Merged
// values become warnings of the cohort.
ResolvedQuestions ask(Cohort& cohort, const Questions& questions);

// Turns fits into predictions: applies each seed's Readout, averages over seeds, and decides at the
// threshold.

// The readouts that one fold has learnt for a target.
struct FoldReadout {
  std::vector<Readout> seeds;         // all have the same threshold
  std::vector<std::string> families;  // by fit: the family of its summary, or kNoFamily

  double threshold() const { return seeds.front().threshold; }
};

// One model's predictions for all exams that its fits held out, or validated on.
struct ModelPredictions {
  std::string model;
  std::string frame;           // for `single` on one frame: which one
  std::string sequence_model;  // for `auto`: the model used if no summary is chosen
  PredictionTable held_out, validation;
  std::vector<const Split*> splits;
  std::vector<std::vector<FoldReadout>> readouts;  // [split][target]
  // [target][fit] the scores of `held_out` by each single fit; empty: there is only one.
  std::vector<std::vector<std::vector<double>>> fits = {};
};

// Requires fits in the order of run_fits(): the seeds of a fold are consecutive. Averages over
// seeds; validation predictions also get the standard deviation over seeds. Decides binary targets
// at `threshold`, or at the one chosen on the validation part.
std::vector<ModelPredictions> assemble(const std::vector<FinishedFit>& fits, const Cohort& cohort,
                                       const TrainOptions& options,
                                       std::optional<double> threshold = {});

// A table without rows.
PredictionTable table_of(const Cohort& cohort);

// The report on models (the first is the main one) with all metrics: for each target over the
// labelled exams of `used`, or their frames, averaged as requested. `shuffled`: none, or the
// sequence model of `auto` on shuffled frames.
RunReport report_of(const std::vector<ModelPredictions>& models, const RunFacts& run,
                    const Cohort& cohort, const std::vector<std::size_t>& used,
                    const ResolvedQuestions& asked,
                    std::span<const ModelPredictions> shuffled = {});

// Sets the description of the target in a report.
void describe_target(TargetReport& report, const Target& target);

// model,repeat,fold,seed,epoch,train_loss,validation_loss,learning_rate,best
std::string epochs_csv(const std::vector<FinishedFit>& fits);

// Compares two finished runs on the exams that both held out, from the files in their folders.

// Reports the runs as two models, the first being the main one. Metrics are computed fold by fold
// if both runs have the same splits, else pooled over each repeat; times to an event are compared
// at common horizons. DataError if labels of exams differ, no exam was held out by both, or there
// is no common horizon.
RunReport compare_held_out(const std::filesystem::path& run, const std::filesystem::path& against,
                           const BootstrapOptions& bootstrap, const Questions& questions);

// ConfigError unless `run` is a finished run with these targets; DataError if times to an event
// have no common horizon.
void require_comparable(const std::filesystem::path& run, const std::vector<Target>& targets);

// ConfigError unless both have the same targets; for times to an event, tasks and horizons may
// differ.
void require_same_question(const std::vector<Target>& a, const std::string& name_a,
                           const std::vector<Target>& b, const std::string& name_b);

// The held-out exams that a report shows individually.

// Sets `held_out` and `picture_note`: labelled exams of the first repeat and the first target, with
// thumbnails of the largest errors first and of a sample of correct answers in between. None for
// per-frame or time-to-event targets.
void show_held_out(const ModelPredictions& main, const Cohort& cohort, cache::Pictures& pictures,
                   TargetReport& report);

}  // namespace coldframe::temporal

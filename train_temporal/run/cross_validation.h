// Fits every model on every fold with every seed, several in parallel, and records on disk which
// are done.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "train_temporal/data/covariates.h"
#include "train_temporal/fit/trainer.h"
#include "train_temporal/run/options.h"
#include "train_temporal/run/run_folder.h"
#include "train_temporal/run/search_space.h"

namespace coldframe::temporal {

// What all fits of a run share.
struct Experiment {
  std::span<const Dataset> datasets;  // one per device, assigned to the threads of fits round-robin
  const Targets& targets;
  const std::vector<CovariateColumn>& covariates;
  const std::vector<Split>& splits;
  const TrainOptions& options;
  ModelConfig base;                          // from the options and the cache, before set_model()
  std::vector<Setting> settings = {};        // of --search
  std::vector<std::size_t> chosen = {};      // setting index of each split; empty: not chosen yet
  const tune::TunedSource* tuned = nullptr;  // of --tune
  const std::vector<std::string>* patients = nullptr;  // of every exam
  Part part = {};                                      // the part of the run's fits to do
  bool same_length = false;                            // all exams have the same number of frames

  const Dataset& dataset() const { return datasets.front(); }
  const torch::Device& device() const { return dataset().device; }
  bool searches() const { return settings.size() > 1 && chosen.empty(); }
  // True for the control `blank` where its outputs are the same for all exams: they are fitted
  // exactly.
  bool is_constant(const ModelConfig& model) const;
  ModelChoice choice(const FitName& fit) const;  // with the fit's setting applied
  ModelConfig config(const FitName& fit) const;
  std::uint64_t fit_seed(const Split& split, std::size_t seed) const;
  FitTask task(const FitName& fit, const Split& split, std::size_t thread = 0) const;
  // The covariate encoding learnt from the fit's training part; empty if its model takes none.
  CovariateEncoding encoding(const FitName& fit, const Split& split) const;
  // The name under which a fit is recorded. `gru` beside `auto` is fitted once: as what auto may
  // take in each fit.
  FitName recorded(FitName fit) const;
  bool fits_within_auto(const std::string& model) const;
  // True if the fit is in this part. Fits that start from others are in the same part as these.
  bool is_mine(const FitName& fit) const;
  std::size_t searched_fits() const;  // number of fits that --search does before those of the run
  // With --tune: one fit's fraction of what remains, after features and weights, of the budget or,
  // without a budget, of most of a GPU's memory; 0 (unbounded) on the CPU without a budget.
  std::uint64_t tune_budget() const;
};

// A finished fit without its weights, which are in the file RunFolder::record().
struct FinishedFit {
  FitName name;
  const Split* split;
  FitRecord record;
};

// Error for a fit with empty history, which diverged in the first epoch. Only --search tolerates
// it.
inline constexpr const char* kDivergedAtOnce =
    "the loss is not a finite number in the first epoch; lower --lr or look at the features with "
    "`coldframe cache stats`";

// The fit with the best validation result, by early stopping's criterion; the first of equals. A
// `summary` model may replace a sequence model only if FitRecord::lead is set.
std::size_t best_of(std::span<const FinishedFit> fits);

// In the FitNames of `auto`, next to kSummaryModel: the model that reads frames in order.
inline constexpr const char* kSequence = "sequence";

// The candidates among which each fit of a model chooses on its validation part: frames; for `auto`
// and its twins kSequence and kSummaryModel; "" for a model without a choice. A `summary` that
// exceeds --memory-budget is not a candidate.
std::vector<std::string> candidates(const Experiment& experiment, const std::string& model);

// Fits of a run that take equally long: of one model on cached features, or all that tune a ViT,
// which takes nearly all of their time.
struct FitKind {
  std::string name;  // the model's, or "tuned"
  FitName example;
  const Split* split;
  std::size_t fits = 0;
};
// In the order of models, the main one first; --search's fits count as the main model's.
std::vector<FitKind> fit_kinds(const Experiment& experiment);

// The number of fits (including those of --search), of parallel fits, and of threads per fit.
struct FitPlan {
  std::size_t fits = 0, side_by_side = 1, threads_per_fit = 1;
  std::size_t trained = 0;      // fits by gradient steps, which take nearly all of the time
  std::size_t on_a_device = 1;  // of the parallel fits
};
FitPlan plan_fits(const Experiment& experiment);

// Number of LibTorch threads of a fit. One on cached features: with more, sums would depend on the
// machine; parallel fits use the other cores or, with fewer fits than cores, a FusedStep, whose
// sums do not depend on threads. A tuned fit's ViT needs all cores: its run keeps the number with
// which it began.
int torch_threads(const FitTask& task);
// Threads of a tuned fit: as in the configuration of a run that has begun or, for a new run (not in
// `begun`), its fraction of this machine next to the parallel fits.
int threads_of_tuning(const Experiment& experiment, const Json& begun);

// Does all fits of a run, ordered by model, split, seed, with the setting chosen for the split;
// with --tune, those from which tuned ones start come first. Of several candidates() it returns the
// best_of() them. Does not repeat fits whose record exists; continues interrupted ones from their
// last checkpoint. Throws Interrupted after a signal, once the current epochs have been saved. A
// fit depends only on its name and the configuration, and its record is published atomically, so
// that doing a fit twice gives the same run.
std::vector<FinishedFit> run_fits(const Experiment& experiment, const RunFolder& folder);
// What run_fits() has fitted as what `shuffled` may take in each fit beside `auto`: `gru` on
// shuffled frames, under the name `shuffled`. Empty where `gru` or `shuffled` is not compared.
std::vector<FinishedFit> shuffled_grus(const Experiment& experiment, const RunFolder& folder);
// The same for given fits; `verb` is for the progress bar.
void run_fits(const Experiment& experiment, const RunFolder& folder, const char* verb,
              std::vector<FinishedFit>& fits);

}  // namespace coldframe::temporal

// Fits every model on every fold with every seed, several side by side, and remembers on disk which
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

// Everything that the fits of a run share.
struct Experiment {
  std::span<const Dataset> datasets;  // for each device; threads of fits take them in turn
  const Targets& targets;
  const std::vector<CovariateColumn>& covariates;
  const std::vector<Split>& splits;
  const TrainOptions& options;
  ModelConfig base;                      // as the options and the cache make it, before set_model()
  std::vector<Setting> settings = {};    // of --search
  std::vector<std::size_t> chosen = {};  // the setting of each split; empty: none is chosen yet
  const tune::TunedSource* tuned = nullptr;            // of --tune
  const std::vector<std::string>* patients = nullptr;  // of every exam
  Part part = {};                                      // of the run's fits, which alone are done

  const Dataset& dataset() const { return datasets.front(); }
  const torch::Device& device() const { return dataset().device; }
  bool searches() const { return settings.size() > 1 && chosen.empty(); }
  ModelChoice choice(const FitName& fit) const;  // as the fit's setting has it
  ModelConfig config(const FitName& fit) const;
  std::uint64_t fit_seed(const Split& split, std::size_t seed) const;
  FitTask task(const FitName& fit, const Split& split, std::size_t thread = 0) const;
  // A fit learns this of covariates from its training part; empty where its model takes none.
  CovariateEncoding encoding(const FitName& fit, const Split& split) const;
  // Fits that go on from others are in one part with these.
  bool is_mine(const FitName& fit) const;
  std::size_t searched_fits() const;  // with --search: before those of the run
  // With --tune: the share of one fit of what features and weights leave of the budget or, where
  // none is given, of most of a GPU's memory; 0 on the CPU, where nothing bounds it then.
  std::uint64_t tune_budget() const;
};

// A fit that is done, without its weights: those stay in RunFolder::record().
struct FinishedFit {
  FitName name;
  const Split* split;
  FitRecord record;
};

// Fits whose history is empty did so: only --search goes on without them.
inline constexpr const char* kDivergedAtOnce =
    "the loss is not a finite number in the first epoch; lower --lr or look at the features with "
    "`coldframe cache stats`";

// The fit that did best on its validation part, decided as early stopping does it; the first of
// equals. A `summary` in a model's place has FitRecord::lead, or is no choice.
std::size_t best_of(std::span<const FinishedFit> fits);

// In the FitNames of `auto`, beside kSummaryModel: the model that reads frames in order.
inline constexpr const char* kSequence = "sequence";

// The frames among which each fit of a model chooses by its validation part; of `auto` and its
// twins kSequence and kSummaryModel; of a model that has no choice: "". A `summary` that
// --memory-budget does not hold is no choice.
std::vector<std::string> candidates(const Experiment& experiment, const std::string& model);

// Counts the fits, --search's included, those that run side by side, and the threads of each.
struct FitPlan {
  std::size_t fits = 0, side_by_side = 1, threads_per_fit = 1;
  std::size_t trained = 0;      // of the fits: those by steps, which take nearly all of the time
  std::size_t on_a_device = 1;  // of those side by side
};
FitPlan plan_fits(const Experiment& experiment);

// Threads of LibTorch that a fit computes with. On cached features one: more would make its sums
// depend on the machine; cores are used by fits side by side, and where there are fewer fits than
// cores by a FusedStep, whose sums do not. A tuned fit's ViT wants all cores: its run keeps the
// number that it began with.
int torch_threads(const FitTask& task);
// Those of a tuned fit: as the run began, by its configuration, or of a new one (`begun` has none)
// its share on this machine beside the others.
int threads_of_tuning(const Experiment& experiment, const Json& begun);

// All fits of a run, with --tune those that tuned ones go on from before: by model, then split,
// then seed, with the setting that was chosen for the split; of several candidates() the
// best_of() them. Those whose record exists are not repeated; one that was interrupted continues
// from its last checkpoint. Interrupted after a signal, when the current epochs have been saved.
// A fit depends on nothing but its name and the configuration, and its record is published
// atomically, so that a fit done twice gives the same run.
std::vector<FinishedFit> run_fits(const Experiment& experiment, const RunFolder& folder);
// The same for given fits; `verb` is what the progress bar says.
void run_fits(const Experiment& experiment, const RunFolder& folder, const char* verb,
              std::vector<FinishedFit>& fits);

}  // namespace coldframe::temporal

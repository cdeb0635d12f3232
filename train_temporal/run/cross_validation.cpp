#include "train_temporal/run/cross_validation.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

#include "common/cli/error.h"
#include "common/cli/error_context.h"
#include "common/cli/interrupt.h"
#include "common/cli/progress.h"
#include "common/system/cuda_driver.h"
#include "common/text/text.h"
#include "common/threads/threads.h"
#include "common/torch/cpu_memory.h"
#include "train_temporal/run/cohort/covariates.h"
#include "train_temporal/run/epoch_events.h"
#include "train_temporal/run/memory_use.h"
#include "train_temporal/run/starts.h"

namespace coldframe::temporal {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// A kill loses at most this much work, or this many times what a checkpoint takes to write.
constexpr std::chrono::seconds kCheckpointEvery{5};
constexpr int kShareOfCheckpoints = 50;

std::size_t thread_count(const TrainOptions& options) {
  if (options.threads > 0) return options.threads;
  const auto here = static_cast<std::size_t>(options.launch.local_size);
  return std::max<std::size_t>(std::thread::hardware_concurrency() / here, 1);
}

// True on all processes that share a fit when one of them wants it.
bool any_of_them(ProcessGroup* group, bool wanted) {
  return group == nullptr ? wanted : group->sum(wanted ? 1.0 : 0.0) > 0;
}

struct FitFiles {
  fs::path record, checkpoint, events;
};

// Runs one fit to its end and writes its record. False when a signal came or another fit failed:
// its state is saved. Of several processes the one that leads reads and writes.
bool run_fit(const FitTask& task, const FitFiles& files, bool may_diverge,
             const std::atomic<bool>& stopping) {
  const auto& [record, checkpoint, events_file] = files;
  const bool leads = task.group == nullptr || task.group->leads();
  Trainer trainer(task);
  if (leads && fs::exists(checkpoint)) trainer.restore(read_checkpoint(checkpoint));
  trainer.adopt_state();
  std::optional<EpochEvents> events;
  if (leads) events.emplace(events_file, trainer);
  auto saved = Clock::now();
  Clock::duration pause = kCheckpointEvery;
  while (!trainer.finished()) {
    trainer.run_epoch();
    if (leads) events->add(trainer);
    const bool stop = any_of_them(task.group, stopping || stop_requested()) && !trainer.finished();
    const auto now = Clock::now();
    if (leads && (stop || now - saved > pause)) {
      events->flush();
      write_checkpoint(checkpoint, trainer.state());
      saved = Clock::now();
      pause = std::max<Clock::duration>(kCheckpointEvery, kShareOfCheckpoints * (saved - now));
    }
    if (stop) return false;
  }
  if (leads) events->flush();
  in_context(record.stem().string(), [&] {
    const FitResult result = trainer.finish();
    if (result.history.empty() && !may_diverge) throw DataError(kDivergedAtOnce);
    if (leads) write_record(record, result, task.seed);
  });
  if (leads) fs::remove(checkpoint);
  return true;
}

// The frames among which a model has to choose; one that has no choice: none by name.
std::vector<std::string> candidates(const Experiment& experiment, const std::string& model) {
  const bool chooses = thawed(model, experiment.options) == kSingle &&
                       experiment.options.single_frame == kBestFrame &&
                       !experiment.base.per_frame();
  return chooses ? words_in(single_frames()) : std::vector<std::string>{""};
}

std::vector<FinishedFit> plan(const Experiment& experiment) {
  std::vector<FinishedFit> fits;
  for (const std::string& model : experiment.options.models()) {
    for (std::size_t s = 0; s < experiment.splits.size(); ++s) {
      const Split& split = experiment.splits[s];
      const std::size_t setting = experiment.chosen.empty() ? 0 : experiment.chosen[s];
      for (std::size_t seed = 0; seed < experiment.options.seeds; ++seed) {
        for (const std::string& frame : candidates(experiment, model)) {
          fits.push_back({{model, split.repeat, split.fold, seed, setting, frame}, &split, {}});
        }
      }
    }
  }
  return fits;
}

// The fits on cached features from which those of `fits` that tune go on.
std::vector<FinishedFit> plan_frozen(const Experiment& experiment,
                                     const std::vector<FinishedFit>& fits) {
  std::vector<FinishedFit> frozen;
  for (const FinishedFit& fit : fits) {
    if (experiment.tuned == nullptr || !tunes(fit.name.model)) continue;
    frozen.push_back({frozen_fit(fit.name, experiment.options), fit.split, {}});
  }
  return frozen;
}

bool are_rivals(const FinishedFit& a, const FinishedFit& b) {
  return !a.name.frame.empty() && a.name.model == b.name.model && a.split == b.split &&
         a.name.seed == b.name.seed;
}

// Candidates of the same model, split and seed follow each other.
std::vector<FinishedFit> without_losers(std::vector<FinishedFit> fits) {
  std::vector<FinishedFit> chosen;
  for (std::size_t begin = 0, end = 0; begin < fits.size(); begin = end) {
    while (end < fits.size() && (end == begin || are_rivals(fits[begin], fits[end]))) ++end;
    const std::size_t best = best_of(std::span(fits).subspan(begin, end - begin));
    chosen.push_back(std::move(fits[begin + best]));
  }
  return chosen;
}

// Threads that take one fit after another. The first error stops all and is rethrown.
class FitWorkers {
 public:
  FitWorkers(const Experiment& experiment, const RunFolder* folder, const char* verb,
             std::vector<FinishedFit>& fits)
      : experiment_(experiment),
        folder_(folder),
        fits_(fits),
        progress_(verb, "fits", fits.size()) {}

  void run() {
    const FitPlan plan = plan_fits(experiment_);
    threads_per_fit_ = plan.threads_per_fit;
    share_ = memory_share(plan.side_by_side);
    run_threads(plan.side_by_side, [this] { work(); });
    if (error_) std::rethrow_exception(error_);
    progress_.finish();
  }
  std::size_t done() const { return done_; }

 private:
  // Each of several fits gets its own share of the budget: what fits is then not up to chance. 0:
  // all.
  std::uint64_t memory_share(std::size_t side_by_side) const {
    const std::uint64_t budget = experiment_.options.memory_budget;
    if (budget == 0 || side_by_side < 2 || !experiment_.device.is_cpu()) return 0;
    const std::uint64_t taken = std::min(cpu_memory().live, budget);
    return std::max<std::uint64_t>((budget - taken) / side_by_side, 1);
  }

  void work() {
    try {
      const CpuMemoryShare share(share_);
      at::set_num_threads(kThreadsPerFit);
      for (std::size_t i = next_++; i < fits_.size() && !stopping_; i = next_++) {
        if (any_of_them(experiment_.group, stop_requested()) || !do_fit(fits_[i])) break;
        ++done_;
        progress_.add();
      }
    } catch (...) {  // the first error is the one reported
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
      stopping_ = true;
    }
  }

  bool do_fit(FinishedFit& fit) {
    FitTask task = experiment_.task(fit.name, *fit.split);
    task.start = start_of(experiment_, folder_, fit.name);
    task.threads = threads_per_fit_;
    const FitFiles files = files_of(fit.name);
    const bool searches = experiment_.searches();
    if (!is_done(files.record) && !run_fit(task, files, searches, stopping_)) return false;
    if (!experiment_.leads()) return true;
    fit.record = read_record(files.record);
    fit.record.weights.clear();
    check(task, fit);
    return true;
  }

  FitFiles files_of(const FitName& name) const {
    if (folder_ == nullptr) return {name.stem(), {}, {}};
    return {folder_->record(name), folder_->checkpoint(name), folder_->events(name)};
  }

  bool is_done(const fs::path& record) const {
    const bool done = experiment_.leads() && fs::exists(record);
    return experiment_.group == nullptr ? done : experiment_.group->broadcast(done);
  }

  void check(const FitTask& task, const FinishedFit& fit) const {
    const auto classes = static_cast<std::size_t>(task.config.classes);
    const bool fits =
        fit.record.seed == task.seed &&
        fit.record.validation_logits.size() == task.targets.rows(task.split.validation) * classes &&
        fit.record.test_logits.size() == task.targets.rows(task.split.test) * classes &&
        (experiment_.searches() || !fit.record.history.empty());
    if (!fits) {
      throw DataError(concat("'", folder_->record(fit.name).string(),
                             "' belongs to another run; start again with --overwrite"));
    }
  }

  const Experiment& experiment_;
  const RunFolder* folder_;
  std::vector<FinishedFit>& fits_;
  Progress progress_;
  std::size_t threads_per_fit_ = 1;
  std::uint64_t share_ = 0;
  std::atomic<std::size_t> next_{0}, done_{0};
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;
  std::exception_ptr error_;
};

}  // namespace

ModelConfig Experiment::config(const FitName& fit) const {
  ModelConfig result = base;
  const std::string model = thawed(fit.model, options);
  if (is_twin(model)) set_model(result, options.model);
  set_model(result, model);
  const std::string& frame = fit.frame.empty() ? options.single_frame : fit.frame;
  if (is_one_frame(result.order))
    result.order = value_for(single_frames(), frame).value_or(result.order);
  if (!reads_in_order(result.architecture)) result.time = false;
  if (!is_recurrent(result.architecture)) result.bidirectional = false;
  result.layers = options.layers_of(result.architecture);
  return result;
}

std::uint64_t Experiment::fit_seed(const Split& split, std::size_t seed) const {
  return CounterRandom({options.seed, split.repeat, split.fold, seed}).next();
}

CovariateEncoding Experiment::encoding(const FitName& fit, const Split& split) const {
  if (config(fit).architecture == ModelKind::kClock) return {};
  return CovariateEncoding(covariates, split.train);
}

FitTask Experiment::task(const FitName& fit, const Split& split) const {
  FitTask task{dataset, targets, split, config(fit), options.fit, fit_seed(split, fit.seed)};
  task.group = group;
  take_covariates(task, encoding(fit, split), covariates, options.covariates.at_frames);
  if (fit.setting > 0) settings[fit.setting].apply(task.config, task.options);
  if (tuned != nullptr && tunes(fit.model)) {
    task.tuned = tuned;
    task.options.tune.budget = tune_budget();
    task.options.tune.vit.budget = 2ull << 30;  // more hardly makes a step faster on the CPU
  }
  const bool taken = !options.tune.from.empty() && fit.model.starts_with(kFrozen);
  if (taken) task.options.epochs = 0;  // as the earlier run left it
  return task;
}

std::uint64_t Experiment::tune_budget() const {
  std::uint64_t budget = options.memory_budget;
  if (budget == 0 && device.is_cpu()) return 0;
  if (budget == 0) budget = cuda_driver::total_memory(static_cast<int>(device.index())) / 10 * 8;
  std::uint64_t taken = dataset.loaded_bytes();
  for (const auto& [name, tensor] : tuned->tensors()) taken += tensor.nbytes();
  return std::max<std::uint64_t>((budget - std::min(budget, taken)) / plan_fits(*this).side_by_side,
                                 1);
}

// The best fit of a split has the run's first seed: it is not repeated.
std::size_t Experiment::searched_fits() const {
  return settings.size() > 1 ? splits.size() * (settings.size() - 1) : 0;
}

std::size_t best_of(std::span<const FinishedFit> fits) {
  EarlyStop best;
  EpochLosses worst;
  worst.validation = best.best_loss;
  worst.figure = best.best_figure;
  for (const FinishedFit& fit : fits) {
    const FitRecord& record = fit.record;
    const EpochLosses kept = record.history.empty() ? worst : record.history[record.best_epoch];
    best.update(kept.validation, kept.figure);
  }
  return best.best_epoch;
}

FitPlan plan_fits(const Experiment& experiment) {
  const TrainOptions& options = experiment.options;
  const std::size_t threads = thread_count(options);
  FitPlan plan;
  const auto fits = temporal::plan(experiment);
  plan.fits = fits.size() + experiment.searched_fits() + plan_frozen(experiment, fits).size();
  if (options.trains(kFrozen)) plan.fits -= experiment.splits.size() * options.seeds;  // once
  // One device, and one budget, is shared by all fits: side by side they would compete for it.
  const bool shared =
      !experiment.device.is_cpu() || options.memory_budget > 0 || experiment.group != nullptr;
  const std::size_t wanted = options.jobs > 0 ? options.jobs : shared ? 1 : threads;
  plan.side_by_side = std::max<std::size_t>(std::min(wanted, plan.fits), 1);
  plan.threads_per_fit = std::max<std::size_t>(threads / plan.side_by_side, 1);
  return plan;
}

std::vector<FinishedFit> run_fits(const Experiment& experiment, const RunFolder* folder) {
  std::vector<FinishedFit> fits = plan(experiment);
  std::vector<FinishedFit> frozen = plan_frozen(experiment, fits);
  if (!frozen.empty()) run_fits(experiment, folder, "train on cached features", frozen);
  run_fits(experiment, folder, frozen.empty() ? "train" : "tune", fits);
  return folder == nullptr ? fits : without_losers(std::move(fits));
}

void run_fits(const Experiment& experiment, const RunFolder* folder, const char* verb,
              std::vector<FinishedFit>& fits) {
  std::size_t done = 0;
  try {
    FitWorkers workers(experiment, folder, verb, fits);
    workers.run();
    done = workers.done();
  } catch (const c10::OutOfMemoryError&) {
    throw SystemError(concat(
        "there is not enough memory for the features, the model and its gradients, which take "
        "about ",
        human_bytes(least_memory(experiment)), " at least",
        experiment.options.memory_budget > 0
            ? concat(" where ", human_bytes(experiment.options.memory_budget), " are allowed")
            : "",
        "; raise --memory-budget or lower --hidden"));
  }
  if (done < fits.size()) {
    throw Interrupted(concat("stopped with ", done, " of ", plural(fits.size(), "fit"),
                             " done; run the same command with --resume to continue"));
  }
}

}  // namespace coldframe::temporal

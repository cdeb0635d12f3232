#include "train_temporal/cross_validation.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <thread>

#include "common/error.h"
#include "common/error_context.h"
#include "common/interrupt.h"
#include "common/progress.h"
#include "common/text.h"
#include "train_temporal/epoch_events.h"

namespace coldframe::temporal {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// A kill loses at most this much work, or this many times what a checkpoint takes to write.
constexpr std::chrono::seconds kCheckpointEvery{5};
constexpr int kShareOfCheckpoints = 50;

std::size_t thread_count(const TrainOptions& options) {
  if (options.threads > 0) return options.threads;
  return std::max<std::size_t>(std::thread::hardware_concurrency(), 1);
}

struct FitFiles {
  fs::path record, checkpoint, events;
};

// Runs one fit to its end and writes its record. False when a signal came or another fit failed:
// its state is saved.
bool run_fit(const FitTask& task, const FitFiles& files, const std::atomic<bool>& stopping) {
  const auto& [record, checkpoint, events_file] = files;
  Trainer trainer(task);
  if (fs::exists(checkpoint)) trainer.restore(read_checkpoint(checkpoint));
  EpochEvents events(events_file, trainer);
  auto saved = Clock::now();
  Clock::duration pause = kCheckpointEvery;
  while (!trainer.finished()) {
    trainer.run_epoch();
    events.add(trainer);
    const bool stop = (stopping || stop_requested()) && !trainer.finished();
    const auto now = Clock::now();
    if (stop || now - saved > pause) {
      events.flush();
      write_checkpoint(checkpoint, trainer.state());
      saved = Clock::now();
      pause = std::max<Clock::duration>(kCheckpointEvery, kShareOfCheckpoints * (saved - now));
    }
    if (stop) return false;
  }
  events.flush();
  in_context(record.stem().string(), [&] { write_record(record, trainer.finish(), task.seed); });
  fs::remove(checkpoint);
  return true;
}

std::vector<FinishedFit> plan(const Experiment& experiment) {
  std::vector<FinishedFit> fits;
  for (const std::string& model : experiment.options.models()) {
    for (const Split& split : experiment.splits) {
      for (std::size_t seed = 0; seed < experiment.options.seeds; ++seed) {
        fits.push_back({{model, split.repeat, split.fold, seed}, &split, {}});
      }
    }
  }
  return fits;
}

// Threads that take one fit after another. The first error stops all and is rethrown.
class FitWorkers {
 public:
  FitWorkers(const Experiment& experiment, const RunFolder& folder, std::vector<FinishedFit>& fits)
      : experiment_(experiment),
        folder_(folder),
        fits_(fits),
        progress_("train", "fits", fits.size()) {}

  void run() {
    const FitPlan plan = plan_fits(experiment_);
    threads_per_fit_ = plan.threads_per_fit;
    std::vector<std::thread> workers;
    for (std::size_t i = 0; i < plan.side_by_side; ++i) {
      workers.emplace_back([this] { work(); });
    }
    for (std::thread& worker : workers) worker.join();
    if (error_) std::rethrow_exception(error_);
    progress_.finish();
  }

 private:
  void work() {
    try {
      at::set_num_threads(kThreadsPerFit);
      for (std::size_t i = next_++; i < fits_.size() && !stopping_; i = next_++) {
        if (stop_requested() || !do_fit(fits_[i])) break;
        progress_.add();
      }
    } catch (...) {  // the first error is the one reported
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
      stopping_ = true;
    }
  }

  bool do_fit(FinishedFit& fit) {
    const fs::path record = folder_.record(fit.name);
    FitTask task = experiment_.task(fit.name, *fit.split);
    task.threads = threads_per_fit_;
    const FitFiles files{record, folder_.checkpoint(fit.name), folder_.events(fit.name)};
    if (!fs::exists(record) && !run_fit(task, files, stopping_)) {
      return false;
    }
    fit.record = read_record(record);
    fit.record.weights.clear();
    check(task, fit);
    return true;
  }

  void check(const FitTask& task, const FinishedFit& fit) const {
    const auto classes = static_cast<std::size_t>(task.config.classes);
    const bool fits =
        fit.record.seed == task.seed &&
        fit.record.validation_logits.size() == task.targets.rows(task.split.validation) * classes &&
        fit.record.test_logits.size() == task.targets.rows(task.split.test) * classes &&
        !fit.record.history.empty();
    if (!fits) {
      throw DataError(concat("'", folder_.record(fit.name).string(),
                             "' belongs to another run; start again with --overwrite"));
    }
  }

  const Experiment& experiment_;
  const RunFolder& folder_;
  std::vector<FinishedFit>& fits_;
  Progress progress_;
  std::size_t threads_per_fit_ = 1;
  std::atomic<std::size_t> next_{0};
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;
  std::exception_ptr error_;
};

}  // namespace

ModelConfig Experiment::config(const std::string& model) const {
  ModelConfig result = base;
  set_model(result, model);
  if (!is_recurrent(result.architecture)) result.time = false;
  return result;
}

std::uint64_t Experiment::fit_seed(const Split& split, std::size_t seed) const {
  return CounterRandom({options.seed, split.repeat, split.fold, seed}).next();
}

FitTask Experiment::task(const FitName& fit, const Split& split) const {
  return {dataset, targets, split, config(fit.model), options.fit, fit_seed(split, fit.seed)};
}

FitPlan plan_fits(const Experiment& experiment) {
  const TrainOptions& options = experiment.options;
  const std::size_t threads = thread_count(options);
  FitPlan plan;
  plan.fits = options.models().size() * experiment.splits.size() * options.seeds;
  // One device, and one budget, is shared by all fits: side by side they would only compete for it,
  // and what fits would depend on chance.
  const bool shared = !experiment.device.is_cpu() || options.memory_budget > 0;
  plan.side_by_side = shared ? 1 : std::max<std::size_t>(std::min(threads, plan.fits), 1);
  plan.threads_per_fit = std::max<std::size_t>(threads / plan.side_by_side, 1);
  return plan;
}

std::vector<FinishedFit> run_fits(const Experiment& experiment, const RunFolder& folder) {
  std::vector<FinishedFit> fits = plan(experiment);
  try {
    FitWorkers(experiment, folder, fits).run();
  } catch (const c10::OutOfMemoryError&) {
    throw SystemError(
        "there is not enough memory for the features, the model and its gradients; raise "
        "--memory-budget or lower --hidden");
  }
  const auto done = static_cast<std::size_t>(std::count_if(
      fits.begin(), fits.end(), [](const FinishedFit& f) { return !f.record.history.empty(); }));
  if (done < fits.size()) {
    throw Interrupted(concat("stopped with ", done, " of ", plural(fits.size(), "fit"),
                             " done; run the same command with --resume to continue"));
  }
  return fits;
}

}  // namespace coldframe::temporal

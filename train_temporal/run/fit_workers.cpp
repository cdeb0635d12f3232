#include "train_temporal/run/fit_workers.h"

#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <optional>

#include "common/cli/error.h"
#include "common/cli/error_context.h"
#include "common/cli/interrupt.h"
#include "common/cli/progress.h"
#include "common/files/retry_policy.h"
#include "common/text/text.h"
#include "common/threads/threads.h"
#include "common/torch/cpu_memory.h"
#include "common/torch/device.h"
#include "train_temporal/run/starts.h"
#include "train_temporal/training/summary/summary_fit.h"

namespace coldframe::temporal {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// A kill loses at most this much work, or this many times what a checkpoint takes to write.
constexpr std::chrono::seconds kCheckpointEvery{5};
constexpr int kShareOfCheckpoints = 50;

struct FitFiles {
  fs::path record, checkpoint;
};

// Trains by steps, saving the state meanwhile. None when a signal came or another fit failed: its
// state is saved.
std::optional<FitRecord> train_fit(const FitTask& task, const FitFiles& files, bool may_diverge,
                                   const std::atomic<bool>& stopping) {
  Trainer trainer(task);
  if (fs::exists(files.checkpoint)) trainer.restore(read_checkpoint(files.checkpoint));
  auto saved = Clock::now();
  Clock::duration pause = kCheckpointEvery;
  while (!trainer.finished()) {
    trainer.run_epoch();
    const bool stop = (stopping || stop_requested()) && !trainer.finished();
    const auto now = Clock::now();
    if (stop || now - saved > pause) {
      write_checkpoint(files.checkpoint, trainer.state());
      saved = Clock::now();
      pause = std::max<Clock::duration>(kCheckpointEvery, kShareOfCheckpoints * (saved - now));
    }
    if (stop) return {};
  }
  return in_context(files.record.stem().string(), [&] {
    FitRecord record = trainer.finish();
    if (record.history.empty() && !may_diverge) throw DataError(kDivergedAtOnce);
    return record;
  });
}

// Runs one fit to its end and writes its record, which is returned; none as train_fit() has it.
std::optional<FitRecord> run_fit(const FitTask& task, const FitFiles& files, bool may_diverge,
                                 const std::atomic<bool>& stopping) {
  std::optional<FitRecord> record;
  if (task.config.architecture->by_steps)
    record = train_fit(task, files, may_diverge, stopping);
  else
    record = in_context(files.record.stem().string(), [&] { return fit_summary(task); });
  if (!record) return {};
  write_record(files.record, *record);
  fs::remove(files.checkpoint);
  return record;
}

// Threads that take one fit after another. The first error stops all and is rethrown.
class FitWorkers {
 public:
  FitWorkers(const Experiment& experiment, const RunFolder& folder, const char* verb,
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
    if (budget == 0 || side_by_side < 2 || !experiment_.device().is_cpu()) return 0;
    const std::uint64_t taken = std::min(cpu_memory().live, budget);
    return std::max<std::uint64_t>((budget - taken) / side_by_side, 1);
  }

  void work() {
    try {
      const std::size_t thread = threads_++;
      const auto& datasets = experiment_.datasets;
      const c10::DeviceGuard device(datasets[thread % datasets.size()].device);
      const CpuMemoryShare share(share_);
      while (!stopping_ && !stop_requested()) {
        const std::size_t next = next_++;
        if (next >= fits_.size() || !do_fit(fits_[next], thread)) break;
        ++done_;
        progress_.add();
      }
    } catch (...) {  // the first error is the one reported
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
      stopping_ = true;
    }
  }

  bool do_fit(FinishedFit& fit, std::size_t thread) {
    FitTask task = experiment_.task(fit.name, *fit.split, thread);
    task.start = start_of(experiment_, folder_, fit.name);
    task.threads = threads_per_fit_;
    set_torch_threads(torch_threads(task));
    const FitFiles files{folder_.record(fit.name), folder_.checkpoint(fit.name)};
    const bool searches = experiment_.searches();
    folder_.require_there();
    auto record = fs::exists(files.record) ? read_record(files.record)
                                           : run_fit(task, files, searches, stopping_);
    if (!record) return false;
    const auto& learnt = task.options.tune.vit.learnt;
    if (learnt) learnt->lower(record->vit_budget);
    fit.record = *std::move(record);
    fit.record.weights.clear();
    fit.record.tuned.clear();
    check(task, fit);
    return true;
  }

  void check(const FitTask& task, const FinishedFit& fit) const {
    const auto classes = static_cast<std::size_t>(task.config.outputs);
    const bool fits =
        fit.record.seed == task.seed &&
        fit.record.validation_logits.size() == task.targets.rows(task.split.validation) * classes &&
        fit.record.test_logits.size() == task.targets.rows(task.split.test) * classes &&
        (experiment_.searches() || !fit.record.history.empty());
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
  std::uint64_t share_ = 0;
  std::atomic<std::size_t> threads_{0}, next_{0}, done_{0};
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;
  std::exception_ptr error_;
};

}  // namespace

std::size_t work_on(const Experiment& experiment, const RunFolder& folder, const char* verb,
                    std::vector<FinishedFit>& fits) {
  FitWorkers workers(experiment, folder, verb, fits);
  workers.run();
  return workers.done();
}

}  // namespace coldframe::temporal

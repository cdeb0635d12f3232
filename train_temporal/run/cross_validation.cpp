#include "train_temporal/run/cross_validation.h"

#include <c10/core/DeviceGuard.h>
#include <c10/util/Exception.h>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "common/cli/error.h"
#include "common/cli/interrupt.h"
#include "common/cli/log.h"
#include "common/cli/progress.h"
#include "common/files/retry_policy.h"
#include "common/system/gpu_libraries.h"
#include "common/system/resources.h"
#include "common/text/text.h"
#include "common/threads/threads.h"
#include "common/torch/device.h"
#include "common/torch/memory.h"
#include "train_temporal/fit/memory_plan.h"
#include "train_temporal/fit/summary_fit.h"
#include "train_temporal/models/model_config.h"
#include "train_temporal/run/covariates.h"
#include "train_temporal/run/devices.h"
#include "train_temporal/run/warm_start.h"

namespace coldframe::temporal {

// The threads of a process that take the fits of a run, one after another, beside other processes'.

// Completes `fits`, as run_fits() says, and returns how many are: all, or fewer after a stop
// request. The first error of a fit stops all and is rethrown.
std::size_t work_on(const Experiment& experiment, const RunFolder& folder, const char* verb,
                    std::vector<FinishedFit>& fits);

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// A kill loses at most this much work, or this many times what a checkpoint takes to write.
constexpr std::chrono::seconds kCheckpointEvery{5};
constexpr int kShareOfCheckpoints = 50;

struct FitFiles {
  fs::path record, checkpoint;
};

// Tells how far fits are that tune a ViT. Such a fit takes minutes, and those on cached features
// beside it next to nothing: the time left goes by the epochs of tuned fits.
class TunedProgress {
 public:
  TunedProgress(Progress& progress, const Experiment& experiment,
                const std::vector<FinishedFit>& fits)
      : progress_(progress) {
    if (experiment.tuned == nullptr) return;
    const auto tuned =
        std::ranges::count_if(fits, [](const FinishedFit& fit) { return tunes(fit.name.model); });
    progress_.expect_work(static_cast<double>(tuned) * epochs_in(experiment.options.fit));
  }

  // Of a fit that has done so many epochs before, or (skip) all.
  void begin(const FitTask& task, std::size_t done) {
    if (task.tuned != nullptr) progress_.leave_out_work(static_cast<double>(done));
  }
  void skip(const FitTask& task) {
    if (task.tuned != nullptr) progress_.leave_out_work(epochs_in(task.options));
  }
  // `done`: with the one that measures what the fit goes on from.
  void add_epoch(const FitTask& task, const std::string& fit, std::size_t done) {
    if (task.tuned == nullptr) return;
    progress_.set_note(
        concat(fit, ": epoch ", done == 0 ? 0 : done - 1, " of ", task.options.epochs));
    progress_.add_work(1);
  }
  // It may have stopped early.
  void end(const FitTask& task, std::size_t done) {
    if (task.tuned == nullptr) return;
    progress_.leave_out_work(epochs_in(task.options) - static_cast<double>(done));
  }

 private:
  static double epochs_in(const FitOptions& options) {
    return static_cast<double>(options.epochs + 1);
  }
  Progress& progress_;
};

// Trains by steps, saving the state meanwhile. None when a signal came or another fit failed: its
// state is saved.
std::optional<FitRecord> train_fit(const FitTask& task, const FitFiles& files, bool may_diverge,
                                   const std::atomic<bool>& stopping, TunedProgress& tuned) {
  Trainer trainer(task);
  if (fs::exists(files.checkpoint)) trainer.restore(read_checkpoint(files.checkpoint));
  tuned.begin(task, trainer.history().size());
  auto saved = Clock::now();
  Clock::duration pause = kCheckpointEvery;
  while (!trainer.finished()) {
    trainer.run_epoch();
    tuned.add_epoch(task, files.record.stem().string(), trainer.history().size());
    const bool stop = (stopping || stop_requested()) && !trainer.finished();
    const auto now = Clock::now();
    if (stop || now - saved > pause) {
      write_checkpoint(files.checkpoint, trainer.state());
      saved = Clock::now();
      pause = std::max<Clock::duration>(kCheckpointEvery, kShareOfCheckpoints * (saved - now));
    }
    if (stop) return {};
  }
  tuned.end(task, trainer.history().size());
  return in_context(files.record.stem().string(), [&] {
    FitRecord record = trainer.finish();
    if (record.history.empty() && !may_diverge) throw DataError(kDivergedAtOnce);
    return record;
  });
}

// Runs one fit to its end and writes its record, which is returned; none as train_fit() has it.
std::optional<FitRecord> run_fit(const FitTask& task, const FitFiles& files, bool may_diverge,
                                 const std::atomic<bool>& stopping, TunedProgress& tuned) {
  std::optional<FitRecord> record;
  if (task.config.architecture->by_steps)
    record = train_fit(task, files, may_diverge, stopping, tuned);
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
        progress_(verb, "fits", fits.size()),
        tuned_(progress_, experiment, fits) {}

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
    const bool known = fs::exists(files.record);
    if (known) tuned_.skip(task);
    auto record =
        known ? read_record(files.record) : run_fit(task, files, searches, stopping_, tuned_);
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
  TunedProgress tuned_;
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

namespace {

std::size_t thread_count(const TrainOptions& options) {
  if (options.threads > 0) return options.threads;
  const auto here = static_cast<std::size_t>(options.step.local_count);
  return std::max<std::size_t>(usable_processors() / here, 1);
}

// A twin whose features are blanked has nothing to summarise.
bool chooses_summaries(const Experiment& experiment, const std::string& model) {
  const NamedModel* named = find_model(is_twin(model) ? experiment.options.model : model);
  return named != nullptr && named->chooses && !experiment.config({model}).blank;
}

bool budget_holds_summary(const Experiment& experiment, const std::string& model) {
  const std::uint64_t budget = experiment.options.memory_budget;
  if (budget == 0) return true;
  // Splits differ slightly in size; parallel jobs share the memory that the features leave.
  constexpr double kMore = 1.1;
  const Split& split = experiment.splits.front();
  const FitTask task =
      experiment.task({model, split.repeat, split.fold, 0, 0, kSummaryModel}, split);
  const std::size_t beside = std::max<std::size_t>(experiment.options.jobs, 1);
  const std::uint64_t each = predict_memory(task, first_micro_batches(task)).total();
  return static_cast<double>(experiment.dataset().loaded_bytes()) +
             kMore * static_cast<double>(beside * each) <=
         static_cast<double>(budget);
}

std::vector<FinishedFit> plan(const Experiment& experiment) {
  std::vector<FinishedFit> fits;
  for (const std::string& model : experiment.options.models()) {
    if (experiment.fits_within_auto(model)) continue;
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
  std::erase_if(fits, [&](const FinishedFit& fit) { return !experiment.is_mine(fit.name); });
  return fits;
}

// The fits on cached features from which the tuned ones of `fits` start.
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

// Fits of a model that are recorded as others.
std::vector<FinishedFit> fits_within(const Experiment& experiment, const std::string& model,
                                     const std::vector<FinishedFit>& fits) {
  std::vector<FinishedFit> own;
  for (const FinishedFit& fit : fits) {
    FinishedFit one = fit;
    one.name.model = model;
    one.name.frame.clear();
    const FitName recorded = experiment.recorded(one.name);
    if (recorded.model == fit.name.model && recorded.frame == fit.name.frame) own.push_back(one);
  }
  return own;
}

// Parallel fits share a budget, and those that tune a ViT would compete for a device. A model on
// cached features leaves a GPU nearly idle.
std::size_t usual_jobs(const Experiment& experiment, std::size_t threads) {
  constexpr std::size_t kOnAGpu = 8;
  const std::size_t devices = experiment.datasets.size();
  if (experiment.options.memory_budget > 0) return devices;
  if (experiment.device().is_cpu()) return threads;
  if (experiment.tuned != nullptr) return devices;
  return devices * std::clamp<std::size_t>(threads / devices, 1, kOnAGpu);
}

}  // namespace

// A blank model that is shown neither times nor lengths, nor anything else that differs.
bool Experiment::is_constant(const ModelConfig& model) const {
  const bool sees_length = model.architecture->ordered && !is_one_frame(model.order);
  const bool sees_times = model.architecture->ordered && model.time;
  const bool is_control = model.blank && options.model != kBlank;
  return is_control && !model.per_frame() && model.streams.empty() && covariates.empty() &&
         !sees_times && (same_length || !sees_length);
}

ModelChoice Experiment::choice(const FitName& fit) const {
  ModelChoice own = options;
  own.architecture = base;
  if (fit.setting > 0) settings[fit.setting].apply(own);
  return own;
}

ModelConfig Experiment::config(const FitName& fit) const {
  const ModelChoice own = choice(fit);
  ModelConfig result = own.architecture;
  const std::string model = tuned_counterpart(fit.model, options);
  if (is_twin(model)) set_model(result, own.model);
  set_model(result, model == options.model ? own.model : model);
  if (fit.frame == kSummaryModel) result.architecture = &kSummary;
  if (is_constant(result)) result.architecture = &kSummary;
  const std::string& frame = fit.frame.empty() ? options.single_frame : fit.frame;
  if (is_one_frame(result.order))
    result.order = value_for(single_frames(), frame).value_or(result.order);
  if (!result.architecture->ordered) result.time = false;
  if (!result.time && result.architecture != &kClock) result.elapsed = false;
  if (!result.elapsed) --result.clock_width;
  if (!result.architecture->recurrent) result.bidirectional = false;
  result.layers = options.layers_of(*result.architecture);
  if (!result.can_show_change()) return result;
  result.inputs = value_for(kInputs, own.inputs).value_or(Inputs::kLevel);
  result.dimension *= parts_of(result.inputs);
  return result;
}

std::uint64_t Experiment::fit_seed(const Split& split, std::size_t seed) const {
  return CounterRandom({options.seed, split.repeat, split.fold, seed}).next();
}

CovariateEncoding Experiment::encoding(const FitName& fit, const Split& split) const {
  if (!config(fit).architecture->takes_covariates) return {};
  return CovariateEncoding(covariates, split.train);
}

FitTask Experiment::task(const FitName& fit, const Split& split, std::size_t thread) const {
  FitTask task{datasets[thread % datasets.size()], targets, split, config(fit), choice(fit).fit,
               fit_seed(split, fit.seed)};
  take_covariates(task, encoding(fit, split), covariates, options.covariates.at_frames);
  task.patients = patients;
  // A summary that may replace a model without times does not see times.
  task.hides_times = options.time == TimeInput::kOff || (fit.frame == kSummaryModel && !base.time);
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
  if (budget == 0 && device().is_cpu()) return 0;
  if (budget == 0) budget = cuda_driver::total_memory(static_cast<int>(device().index())) / 10 * 8;
  std::uint64_t taken = dataset().loaded_bytes();
  for (const auto& [name, tensor] : tuned->tensors()) taken += tensor.nbytes();
  return std::max<std::uint64_t>((budget - std::min(budget, taken)) / plan_fits(*this).on_a_device,
                                 1);
}

bool Experiment::fits_within_auto(const std::string& model) const {
  return model == kGru.name && options.model == kAutoModel && settings.size() < 2;
}

FitName Experiment::recorded(FitName fit) const {
  if (!fits_within_auto(fit.model)) return fit;
  fit.model = options.model;
  fit.frame = candidates(*this, fit.model).front();
  return fit;
}

bool Experiment::is_mine(const FitName& fit) const {
  const auto split = std::ranges::find_if(
      splits, [&](const Split& one) { return one.repeat == fit.repeat && one.fold == fit.fold; });
  const auto place = static_cast<std::size_t>(split - splits.begin());
  // A search chooses for all seeds of a split.
  const std::size_t unit = settings.size() > 1 ? place : place * options.seeds + fit.seed;
  return unit % part.count == part.index;
}

// The best fit of a split has the run's first seed: it is not repeated.
std::size_t Experiment::searched_fits() const {
  if (settings.size() < 2) return 0;
  const auto mine = std::ranges::count_if(splits, [&](const Split& split) {
    return is_mine({options.model, split.repeat, split.fold});
  });
  return static_cast<std::size_t>(mine) * (settings.size() - 1);
}

std::size_t best_of(std::span<const FinishedFit> fits) {
  EarlyStop best;
  EpochLosses worst;
  worst.validation = best.best_loss;
  worst.figure = best.best_figure;
  for (const FinishedFit& fit : fits) {
    const FitRecord& record = fit.record;
    const bool found_nothing = fit.name.frame == kSummaryModel && !record.lead;
    const bool is_no_choice = record.history.empty() || found_nothing;
    const EpochLosses kept = is_no_choice ? worst : record.history[record.best_epoch];
    best.update(kept.validation - record.lead.value_or(0), kept.figure);
  }
  return best.best_epoch;
}

std::vector<std::string> candidates(const Experiment& experiment, const std::string& model) {
  if (chooses_summaries(experiment, model) && budget_holds_summary(experiment, model))
    return {kSequence, kSummaryModel};
  const bool chooses = tuned_counterpart(model, experiment.options) == kSingle &&
                       experiment.options.single_frame == kBestFrame &&
                       !experiment.base.per_frame();
  return chooses ? words_in(single_frames()) : std::vector<std::string>{""};
}

// Each has a stream of its own.
constexpr std::size_t kMaxOnAGpu = 16;
static_assert(kMaxOnAGpu < OwnStream::kMost);

std::vector<FitKind> fit_kinds(const Experiment& experiment) {
  std::vector<FinishedFit> fits = temporal::plan(experiment);
  std::ranges::move(plan_frozen(experiment, fits), std::back_inserter(fits));
  std::vector<FitKind> kinds;
  std::set<std::string> known;
  for (const FinishedFit& fit : fits) {
    if (!known.insert(fit.name.stem()).second) continue;  // the control `frozen` is gone on from
    const bool tuned = experiment.tuned != nullptr && tunes(fit.name.model);
    const std::string& frame = fit.name.frame;
    const std::string name =
        tuned ? "tuned" : fit.name.model + (frame.empty() ? "" : concat(" (", frame, ")"));
    auto kind = std::ranges::find(kinds, name, &FitKind::name);
    if (kind == kinds.end()) kind = kinds.insert(kinds.end(), {name, fit.name, fit.split});
    ++kind->fits;
  }
  if (!kinds.empty()) kinds.front().fits += experiment.searched_fits();
  return kinds;
}

FitPlan plan_fits(const Experiment& experiment) {
  const TrainOptions& options = experiment.options;
  const std::size_t threads = thread_count(options);
  FitPlan plan;
  for (const FitKind& kind : fit_kinds(experiment)) {
    plan.fits += kind.fits;
    if (experiment.config(kind.example).architecture->by_steps) plan.trained += kind.fits;
  }
  const std::size_t devices = experiment.datasets.size();
  std::size_t wanted = options.jobs > 0 ? options.jobs : usual_jobs(experiment, threads);
  if (!experiment.device().is_cpu()) wanted = std::min(wanted, devices * kMaxOnAGpu);
  plan.side_by_side = std::max<std::size_t>(std::min(wanted, plan.trained), 1);
  plan.threads_per_fit = std::max<std::size_t>(threads / plan.side_by_side, 1);
  plan.on_a_device = (plan.side_by_side + devices - 1) / devices;
  return plan;
}

int torch_threads(const FitTask& task) {
  return task.tuned != nullptr ? task.options.tune.threads : 1;
}

int threads_of_tuning(const Experiment& experiment, const Json& begun) {
  const auto known = begun.find(kThreadsPerFit);
  if (known != begun.end() && known->is_number_integer())
    return std::clamp(known->get<int>(), 1, 1024);
  if (experiment.tuned == nullptr || !experiment.device().is_cpu()) return 1;
  const auto fits = temporal::plan(experiment);
  const auto tuned = static_cast<std::size_t>(
      std::ranges::count_if(fits, [](const FinishedFit& fit) { return tunes(fit.name.model); }));
  const std::size_t beside = std::clamp<std::size_t>(tuned, 1, plan_fits(experiment).side_by_side);
  return static_cast<int>(std::max<std::size_t>(thread_count(experiment.options) / beside, 1));
}

std::vector<FinishedFit> run_fits(const Experiment& experiment, const RunFolder& folder) {
  const std::string& main = experiment.options.model;
  if (chooses_summaries(experiment, main) && !budget_holds_summary(experiment, main))
    log_warning(
        "--memory-budget does not hold a fit of `summary`: auto takes none in any fit, and none "
        "stands beside it unless --compare names it");
  std::vector<FinishedFit> fits = plan(experiment);
  std::vector<FinishedFit> frozen = plan_frozen(experiment, fits);
  if (!frozen.empty()) run_fits(experiment, folder, "train on cached features", frozen);
  run_fits(experiment, folder, frozen.empty() ? "train" : "tune", fits);
  std::vector<FinishedFit> all;
  const std::vector<FinishedFit> chosen = without_losers(fits);
  for (const std::string& model : experiment.options.models()) {
    const auto is_of = [&](const FinishedFit& fit) { return fit.name.model == model; };
    if (experiment.fits_within_auto(model))
      std::ranges::move(fits_within(experiment, model, fits), std::back_inserter(all));
    else
      std::ranges::copy_if(chosen, std::back_inserter(all), is_of);
  }
  return all;
}

std::vector<FinishedFit> shuffled_grus(const Experiment& experiment, const RunFolder& folder) {
  std::vector<FinishedFit> found;
  if (!experiment.options.trains(kGru.name) || !experiment.fits_within_auto(kGru.name))
    return found;
  for (FinishedFit& fit : plan(experiment)) {
    const NamedModel* model = find_model(fit.name.model);
    const bool shuffled = model != nullptr && model->order == FrameOrder::kShuffled;
    if (!shuffled || fit.name.frame != kSequence) continue;
    fit.record = read_record(folder.record(fit.name));
    fit.record.weights.clear();
    fit.name.frame.clear();
    found.push_back(std::move(fit));
  }
  return found;
}

void run_fits(const Experiment& experiment, const RunFolder& folder, const char* verb,
              std::vector<FinishedFit>& fits) {
  std::size_t done = 0;
  try {
    done = work_on(experiment, folder, verb, fits);
  } catch (const c10::OutOfMemoryError&) {
    throw SystemError(concat(
        "there is not enough memory for the features, the model and its gradients, which take "
        "about ",
        human_bytes(min_memory(experiment)), " at least",
        experiment.options.memory_budget > 0
            ? concat(" where ", human_bytes(experiment.options.memory_budget), " are allowed")
            : "",
        "; raise --memory-budget or lower --hidden"));
  }
  if (done < fits.size()) {
    throw Interrupted(concat("stopped with ", done, " of ", plural(fits.size(), "fit"),
                             " done; run the same command ",
                             folder.part().shared() ? "again" : "with --resume", " to continue"));
  }
}

}  // namespace coldframe::temporal

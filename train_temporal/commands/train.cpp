// `coldframe train`: cohort → folds → fits → report, in a run folder.
#include <torch/version.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>
#include <optional>

#include "common/cli/cli.h"
#include "common/cli/error.h"
#include "common/cli/log.h"
#include "common/files/publish/atomic_file.h"
#include "common/system/memory.h"
#include "common/text/text.h"
#include "common/torch/cpu_memory.h"
#include "common/torch/device.h"
#include "common/torch/device_memory.h"
#include "train_temporal/commands/commands.h"
#include "train_temporal/commands/flat_config.h"
#include "train_temporal/commands/option_checks.h"
#include "train_temporal/commands/run_files.h"
#include "train_temporal/commands/run_list.h"
#include "train_temporal/commands/train_benchmark.h"
#include "train_temporal/commands/train_report.h"
#include "train_temporal/commands/tuning.h"
#include "train_temporal/data/dataset.h"
#include "train_temporal/explain/example_exams.h"
#include "train_temporal/models/model_file.h"
#include "train_temporal/models/registry.h"
#include "train_temporal/run/apply/unlike_training.h"
#include "train_temporal/run/auto_device.h"
#include "train_temporal/run/cohort/arrangement.h"
#include "train_temporal/run/cohort/covariates.h"
#include "train_temporal/run/devices.h"
#include "train_temporal/run/memory_use.h"
#include "train_temporal/run/results/gallery.h"
#include "train_temporal/run/results/held_out.h"
#include "train_temporal/run/results/methods.h"
#include "train_temporal/run/results/results.h"
#include "train_temporal/run/search/search.h"
#include "train_temporal/run/starts.h"
#include "train_temporal/tune/measured_costs.h"

namespace coldframe::temporal {
namespace {

using Clock = std::chrono::steady_clock;

class TrainingRun {
 public:
  // `folder`: where the run grows; null with --benchmark, which keeps nothing.
  TrainingRun(const TrainOptions& options, const RunFolder* folder);

  Json config() const;
  int run(RunFolder& folder);
  int benchmark() const;
  void require_affordable() const { temporal::require_affordable(experiment(), load_seconds_); }

 private:
  void complete_cohort();
  void resolve_model();
  void resolve_search();
  void choose_device(const Json& begun);
  void take_cpu();
  Placement place(const torch::Device& device) const;
  std::vector<Dataset> load(const std::vector<std::size_t>& exams,
                            const std::vector<torch::Device>& devices, Residence where) const;
  void load_features();
  Experiment experiment() const {
    return {datasets_,
            cohort_.targets,
            cohort_.covariates,
            splits_,
            options_,
            base_,
            settings_,
            found_.chosen,
            tuned_.get(),
            &cohort_.patients,
            options_.existing.part};
  }
  void search(const RunFolder& folder);
  void add_search(TargetReport& report) const;
  void warn_of_fits(const std::vector<FinishedFit>& fits);
  RunReport report(const std::vector<ModelPredictions>& models,
                   const std::vector<FinishedFit>& fits) const;

  TrainOptions options_;
  Clock::time_point started_ = Clock::now();
  std::vector<torch::Device> devices_;
  Json device_seconds_;            // where --device auto tried some
  std::vector<Dataset> datasets_;  // for each of them
  std::string split_text_;
  Cohort cohort_;
  ResolvedQuestions asked_;
  std::vector<Split> splits_;
  std::vector<std::string> source_kinds_;
  ModelConfig base_;
  std::vector<Setting> settings_;  // of --search
  SearchResult found_;
  std::unique_ptr<tune::TunedSource> tuned_;  // of --tune
  Placement placement_;
  double load_seconds_ = 0;
};

TrainingRun::TrainingRun(const TrainOptions& options, const RunFolder* folder)
    : options_(options),
      devices_(prepare_devices(options)),
      datasets_(on_each({}, devices_)),
      cohort_(open_cohort(options.data, {})),
      asked_(ask(cohort_, questions_of(options, cohort_))),
      splits_(divide(cohort_, options, split_text_)) {
  complete_cohort();
  resolve_auto(options_, cohort_.targets);
  leave_out_controls(options_, cohort_.targets);
  add_streams_alone(options_, cohort_.cache.streams());
  check_task_options(options_, cohort_.targets);
  if (!options_.against.empty()) require_comparable(options_.against, cohort_.targets.list());
  warn_of_emulated_precision(options.fit.precision, devices_.front());
  resolve_model();
  tuned_ = open_vit(options_, cohort_);
  check_example_maps(options_, cohort_, experiment().config({options_.model, 0, 0, 0}));
  const Json begun = folder != nullptr ? folder->begun() : Json::object();
  options_.fit.tune.threads = threads_of_tuning(experiment(), begun);
  check_earlier_run(experiment(), cohort_);
  choose_device(begun);
  load_features();
  options_.fit.tune.vit.costs = vit_costs(experiment(), begun);
  options_.fit.tune.vit.learnt = std::make_shared<tune::LearntBudget>();
  check_tuning(experiment());
}

// Adds what depends on the splits, and tells what was decided and what somebody should check.
void TrainingRun::complete_cohort() {
  cohort_.covariates = read_covariates(cohort_, splits_, options_);
  for (std::string& warning : unlearnt_streams(cohort_.cache, splits_))
    cohort_.warnings.push_back(std::move(warning));
  for (const std::string& note : cohort_.notes) log_info(note);
  for (const std::string& warning : cohort_.warnings) log_warning(warning);
}

// A run that is gone on with keeps its kind of device. GPUs are taken untried where a ViT is tuned,
// and by parts of a run, which must all choose the same.
void TrainingRun::choose_device(const Json& begun) {
  device_seconds_ = begun.value(kDeviceSeconds, Json());
  if (options_.device != "auto" || devices_.front().is_cpu()) return;
  const std::string before = begun.value("device", "");
  if (before == "cpu") return take_cpu();
  if (!before.empty() || tuned_ || options_.existing.part.shared()) return;
  const auto fit = tried_fit(experiment());
  if (!fit) {
    log_info("device auto: no model of this run is fitted by steps: cpu");
    return take_cpu();
  }
  const torch::Device cpu(torch::kCPU);
  const QuickestDevice quickest = quickest_device(
      {{device_names(devices_), devices_}, {device_name(cpu), {cpu}}}, [&](const auto& devices) {
        const torch::Device& first = devices.front();
        count_cpu_memory(first.is_cpu() ? options_.memory_budget : 0);
        const auto datasets = load(exams_in({fit->split}), devices, place(first).where);
        Experiment tried = experiment();
        tried.datasets = datasets;
        return seconds_per_step(tried, *fit);
      });
  count_cpu_memory(0);
  log_info(quickest.text());
  device_seconds_ = to_json(quickest);
  const bool takes_cpu = quickest.devices().front().is_cpu();
  try {
    for (const torch::Device& device : devices_) {
      release_device_memory(device);
      reset_device_memory_peak(device);
    }
  } catch (const std::exception&) {
    if (!takes_cpu) throw;  // else a GPU that has failed is left as it is
  }
  if (takes_cpu) take_cpu();
}

void TrainingRun::take_cpu() {
  devices_ = {torch::kCPU};
  datasets_ = on_each({}, devices_);
  budget_device_memory("cpu", options_.memory_budget);
  reset_device_memory_peak(devices_.front());
  warn_of_emulated_precision(options_.fit.precision, devices_.front());
}

Placement TrainingRun::place(const torch::Device& device) const {
  const auto views = training_views(cohort_.cache, options_.views);
  const std::uint64_t bytes =
      stored_bytes(cohort_.cache, cohort_.labeled(), RowKind::kFeatures) * views.size();
  return place_features(options_.features, bytes, device, options_.memory_budget);
}

std::vector<Dataset> TrainingRun::load(const std::vector<std::size_t>& exams,
                                       const std::vector<torch::Device>& devices,
                                       Residence where) const {
  const auto views = training_views(cohort_.cache, options_.views);
  return on_each(load_dataset(cohort_.cache, exams, source_kinds_, devices.front(), views, where),
                 devices);
}

void TrainingRun::load_features() {
  const auto begun = Clock::now();
  const auto views = training_views(cohort_.cache, options_.views);
  if (views.size() > 1)
    log_info(concat("training draws one of ", views.size(),
                    " views of each exam per epoch (--views clean for the clean one alone)"));
  placement_ = place(devices_.front());
  log_info("features: " + placement_.text);
  datasets_ = load(cohort_.labeled(), devices_, placement_.where);
  load_seconds_ = std::chrono::duration<double>(Clock::now() - begun).count();
}

void TrainingRun::resolve_model() {
  const std::vector<std::size_t> used = cohort_.labeled();
  source_kinds_ = source_kinds(cohort_.exams(), used);
  base_ = options_.architecture;
  base_.dimension = cohort_.cache.dimension();
  base_.streams = cohort_.cache.streams();
  base_.outputs = static_cast<std::int64_t>(cohort_.targets.outputs());
  ModelConfig main = base_;
  set_model(main, options_.model);
  base_.layers = options_.layers_of(*main.architecture);
  if (cohort_.targets.per_frame()) base_.pool = TemporalPool::kNone;
  base_.clock_width = static_cast<std::int64_t>(
      clock_descriptor(cohort_.exams()[used.front()], source_kinds_).size());
  resolve_search();
  choose_times(options_, cohort_.exams(), used, base_);
}

void TrainingRun::resolve_search() {
  if (options_.search == 0) return;
  ModelChoice given = options_;
  given.architecture = base_;
  settings_ = draw_settings(given, options_.given, options_.search, options_.seed);
}

void TrainingRun::search(const RunFolder& folder) {
  if (settings_.empty()) return;
  log_info(search_cost(experiment()));
  found_ = search_settings(experiment(), folder);
  if (folder.part().shared()) return;
  write_file_atomically(folder.file("search.csv"), search_csv(found_, experiment()));
}

void TrainingRun::add_search(TargetReport& report) const {
  ModelResult& main = report.models.front();
  if (found_.chosen.empty()) return;
  const std::string kinds = searched_kinds(found_, experiment());
  for (ModelResult& model : report.models)
    if (!model.sequence_model.empty()) model.sequence_model = kinds;
  if (main.name != kAutoModel) {
    main.name = kinds;
    main.about = about_model(kinds, report.per_frame, !report.covariates.empty());
  }
  for (std::size_t f = 0; f < found_.chosen.size(); ++f)
    report.choices[f].setting = settings_[found_.chosen[f]].values;
}

Json TrainingRun::config() const {
  Json json;
  json["coldframe"] = kVersion;
  json["torch"] = TORCH_VERSION;
  json["cache"] = options_.data.cache.string();
  json["labels"] = options_.data.labels.string();
  json["target"] = options_.data.target;
  json["targets"] = Json::array();
  for (const Labels& labels : cohort_.targets) {
    json["targets"].push_back(to_json(static_cast<const Target&>(labels)));
    json["targets"].back()["positive"] = labels.positive;
  }
  json["exam_is_patient"] = options_.data.exam_is_patient;
  const Arrangement& arrangement = options_.data.arrangement;
  if (!arrangement.visits.empty()) json["visits"] = arrangement.visits;
  if (!arrangement.stream_column.empty()) json["streams"] = arrangement.stream_column;
  json["split"] = split_text_;
  json["folds"] = splits_.size();
  json["repeats"] = splits_.back().repeat + 1;
  json["seeds"] = options_.seeds;
  json["seed"] = options_.seed;
  json["name"] = options_.model;
  json["compare"] = options_.compare;
  Experiment all = experiment();
  all.part = {};
  json["fits"] = plan_fits(all).fits;
  if (options_.trains(kSingle) && !base_.per_frame()) json["single_frame"] = options_.single_frame;
  json["inputs"] = options_.inputs;
  const ModelConfig main = experiment().config({options_.model, 0, 0, 0});
  json["model"] = to_json(main);
  for (const std::string& name : options_.compare) {
    const ModelConfig compared = experiment().config({name, 0, 0, 0});
    const bool other = compared.layers != main.layers;
    if (other && compared.architecture->ordered) json["layers"][name] = compared.layers;
  }
  if (options_.covariates.asked())
    json["covariates"] = covariates_json(cohort_.covariates, options_.covariates.at_frames);
  json["fit"] = options_json(options_, "fit");
  if (tuned_) json["tune"] = tune_json(options_, *tuned_);
  json["search"] = Json::array();
  for (const Setting& setting : settings_) json["search"].push_back(setting.values);
  json["views"] = datasets_.front().views;
  Json questions = questions_json(options_.questions);
  if (options_.maps) questions["maps"] = true;
  if (!questions.empty()) json["questions"] = questions;
  json["bootstrap"] = options_.bootstrap.resamples;
  json["device"] = devices_.front().is_cuda() ? "cuda" : "cpu";
  if (!device_seconds_.is_null()) json[kDeviceSeconds] = device_seconds_;
  json["memory_budget"] = options_.memory_budget;
  json[kThreadsPerFit] = options_.fit.tune.threads;
  if (tuned_) json[kVitCosts] = tune::to_json(*options_.fit.tune.vit.costs);
  json["data_digest"] = data_digest(cohort_, splits_);
  json["cache_digest"] = cohort_.cache.recipe().cache_digest();
  json["feature_digest"] = cohort_.cache.recipe().feature_digest();
  json["recipe"] = cache::to_json(cohort_.cache.recipe());
  return json;
}

int TrainingRun::run(RunFolder& folder) {
  log_info(concat("training ", join(options_.models(), ", "), " on ", cohort_.targets.labeled(),
                  " exams: ", split_text_));
  // Of parts, as the first one began.
  options_.fit.tune.threads = threads_of_tuning(experiment(), folder.begun());
  if (const Json begun = folder.begun(); begun.contains(kVitCosts))  // of another part, meanwhile
    options_.fit.tune.vit.costs = vit_costs(experiment(), begun);
  search(folder);
  const auto fits = run_fits(experiment(), folder);
  if (folder.part().shared()) {
    log_info(concat(folder.part().text(), ": all of its fits are done; when all parts are, the ",
                    "same command with --resume instead of --part writes the report"));
    return 0;
  }
  warn_of_fits(fits);
  const auto models = assemble(fits, cohort_, options_, asked_.questions.threshold);
  write_tables(folder, experiment(), cohort_, fits, models);
  write_models(folder, experiment(), cohort_, source_kinds_, fits, models);
  write_unlike_training(datasets_.front(), splits_, folder.file(kUnlikeFile));
  RunReport result = report(models, fits);
  Json summary = metrics_json(result);
  for (const TargetReport& target : result.targets) {
    for (const std::string& warning : data_warnings(target)) log_warning(warning);
  }
  const std::string beside = compare_with_earlier(options_, folder, summary);
  summary["memory"] = to_json(memory_use(fits, experiment()));
  summary["seconds"] = std::chrono::duration<double>(Clock::now() - started_).count();
  write_file_atomically(folder.file("summary.json"), summary.dump(2) + "\n");
  write_file_atomically(folder.file("METHODS.md"),
                        methods_text(read_json_file(folder.file("config.json")), summary));
  cache::Pictures pictures(cohort_.cache,
                           options_.questions.without_thumbnails ? 0 : cache::kMostPictureBytes);
  result.targets.front().examples =
      explain_examples(models.front(), cohort_, datasets_.front(), folder.file(""), pictures,
                       options_.maps ? std::optional(options_.weights) : std::nullopt);
  show_held_out(models.front(), cohort_, pictures, result.targets.front());
  const html::Page page = report_page(result);
  write_file_atomically(folder.file("report.html"), page.finish());
  if (options_.questions.figures) write_figures(folder.file(""), result, page);
  folder.publish();
  std::cout << (options_.json ? summary.dump(2) + "\n" : summary_text(result) + beside);
  log_info(concat("report: ", (folder.out() / "report.html").string()));
  return 0;
}

int TrainingRun::benchmark() const {
  const TrainBenchmark measured = measure_training(experiment(), load_seconds_);
  std::cout << (options_.json ? to_json(measured).dump(2) + "\n" : to_table(measured));
  return 0;
}

void TrainingRun::warn_of_fits(const std::vector<FinishedFit>& fits) {
  const std::string name =
      options_.model == kAutoModel ? kAutoModel : searched_kinds(found_, experiment());
  for (const std::string& warning : fit_warnings(fits, options_, name)) {
    cohort_.warnings.push_back(warning);
    log_warning(warning);
  }
}

RunReport TrainingRun::report(const std::vector<ModelPredictions>& models,
                              const std::vector<FinishedFit>& fits) const {
  const auto used = exams_in(splits_);
  RunFacts run;
  run.subtitle = options_.out.filename().string();
  run.split = split_text_;
  if (options_.each_group) run.held_out_by = options_.group;
  run.bootstrap = options_.bootstrap;
  run.covariates = covariate_facts(cohort_.covariates, used);
  run.frame_covariates = options_.covariates.at_frames;
  run.tuned = tuned_ != nullptr;
  RunReport all = report_of(models, run, cohort_, used, asked_);
  for (TargetReport& target : all.targets) add_search(target);
  TargetReport& result = all.targets.front();
  for (const FinishedFit& fit : fits)
    if (fit.name.model == options_.model) result.curves.push_back(curve_of(fit));
  Json settings = config();
  for (const char* key : {"cache", "labels", "recipe", kVitCosts}) settings.erase(key);
  result.configuration = flat_config(std::move(settings));
  result.recipe = flat_config(cohort_.cache.recipe().features);
  const std::chrono::duration<double> seconds = Clock::now() - started_;
  result.resources = {{"time", human_duration(seconds.count())},
                      {"peak memory", human_bytes(peak_resident_bytes())},
                      {"features", placement_.text},
                      {"device", device_names(devices_)}};
  for (auto& fact : to_facts(memory_use(fits, experiment()))) result.resources.push_back(fact);
  return all;
}

}  // namespace

int run_train(const std::vector<std::string>& arguments) {
  if (asks_for_list(arguments)) return list_runs(arguments);
  TrainOptions options;
  if (!parse_train_options(arguments, options)) return 0;
  check_model_options(options);
  if (options.tune.asked()) keep_freed_memory();
  if (options.benchmark) return TrainingRun(options, nullptr).benchmark();
  RunFolder folder(options.out, options.existing);
  TrainingRun run(options, &folder);
  if (!folder.finished()) run.require_affordable();
  if (folder.start(run.config())) return run.run(folder);
  if (options.questions.figures) require_figures(options.out);
  log_info(concat("'", options.out.string(), "' is finished; nothing to resume"));
  tell_comparison(options);
  return 0;
}

}  // namespace coldframe::temporal

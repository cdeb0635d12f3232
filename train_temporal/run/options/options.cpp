#include "train_temporal/run/options/options.h"

#include <algorithm>
#include <charconv>

#include "common/cli/cli.h"
#include "common/cli/error.h"
#include "common/text/text.h"
#include "train_temporal/models/registry.h"
#include "train_temporal/run/options/bounds.h"
#include "train_temporal/run/options/help_groups.h"
#include "train_temporal/run/options/named_caches.h"
#include "train_temporal/run/options/named_files.h"
#include "train_temporal/run/options/option_values.h"
#include "train_temporal/run/options/shared_options.h"
#include "train_temporal/tasks/target_list.h"

namespace coldframe::temporal {
namespace {

namespace po = boost::program_options;
const CommandHelp kTrainHelp{
    "coldframe train --cache CACHE --target COLUMN --out RUN [options]",
    "Trains a GRU on cached features, patient by patient held out, and writes a run folder: "
    "metrics with 95 % intervals, predictions, weights and report.html.",
    "coldframe train --cache exams.cache --target label --folds 5 --seeds 3 --compare "
    "--out runs/label"};
constexpr const char* kAllControls = "all";  // --compare without a list

// Words whose meaning is decided after parsing.
struct RawOptions {
  std::string cache, labels, out, splits, compare, from, against, memory_budget, require, monitor;
  std::string features = "auto", views = "auto", folds = "0";
  std::string pool, time = "auto", time_encoding = "log", fusion = "concat", schedule = "cosine";
  std::string stopping_metric = "loss", loss = "auto", sampler = "order", amp = "off";
  bool resume = false, overwrite = false, shared = false;
  CovariateWords covariates;
};

void add_resources(po::options_description& description, RawOptions& words, TrainOptions& options) {
  auto add = description.add_options();
  add("jobs", number(options.jobs),
      "fits side by side, which share threads and budget; 0: one per thread, one on each GPU "
      "(--device cuda takes all), or one under a budget");
  add("features", text(words.features, "WHERE")->default_value(words.features),
      "device, memory or stream (from the cache, as they are wanted); auto: the first where they "
      "fit");
  add("memory-budget", text(words.memory_budget, "SIZE"),
      "the most that features and computation may take on the device, e.g. 500MiB (default: all); "
      "batches are cut to fit");
  add("require", text(words.require, "LIMITS"),
      "end with exit code 1, before anything is trained, where a run takes more than memory=6GiB "
      "(of tensors, predicted), epoch=5s (measured for a few seconds) or run=2h (at most); several "
      "with commas between them");
  add("monitor", text(words.monitor, "FILE.csv"),
      "write memory, CPU and GPU load once a second; the report draws them");
}

void add_split(po::options_description& description, RawOptions& words, TrainOptions& options) {
  auto add = description.add_options();
  add("folds", text(words.folds, "N")->default_value(words.folds),
      "folds by patient; 1: one hold-out; patients: each patient held out once; groups: each value "
      "of --group; 0: the cache's split column if there is one, else 5");
  add("group", text(options.group, "COLUMN"),
      "exams with one value of this column of the cache or of --labels stay on one side of a "
      "split, "
      "beside those of a patient");
  add("split-column", po::bool_switch(&options.split_column),
      "use the cache's split column (train, val, test)");
  add("splits", text(words.splits, "FILE.csv"), "use the splits.csv of an earlier run");
  add("repeats", number(options.repeats), "repeat the folds with other divisions");
  add("seeds", number(options.seeds), "fits per fold, whose predictions are averaged");
  add("seed", number(options.seed), "of all random numbers");
}

void add_model(po::options_description& description, RawOptions& words, TrainOptions& options) {
  auto add = description.add_options();
  ModelConfig& model = options.architecture;
  add("model", text(options.model, "NAME")->default_value(options.model),
      join(model_names(), ", ").c_str());
  add("compare", text(words.compare, "LIST")->implicit_value(kAllControls),
      "also fit these on the same folds (--compare alone, or all: those of gru, mean, single, "
      "shuffled, blank and clock that apply to the target, with --covariates covariates, and with "
      "--tune frozen)");
  add("single-frame", text(options.single_frame, "WHICH")->default_value(options.single_frame),
      "what the model `single` sees: the first, middle or last frame, or the best of these by the "
      "validation part of each fold");
  add("hidden", number(model.hidden),
      "width of the projection and of the layers over frames, or of the MLP in their place");
  add("layers", number(options.layers),
      "layers of the model that reads frames in order; 0: 1 of a GRU or LSTM, 2 of a transformer, "
      "3 blocks of a TCN");
  add("bidirectional", po::bool_switch(&model.bidirectional),
      "read sequences both ways (GRU, LSTM)");
  add("temporal-pool", text(words.pool, "KIND"),
      "last, mean or attention (the default) over what the GRU, or a model in its place, makes of "
      "each frame");
  add("time", text(words.time, "WHEN")->default_value(words.time),
      "give the GRU, or a model in its place, time intervals: on, off, or auto (when they are "
      "known and uneven)");
  add("time-encoding", text(words.time_encoding, "KIND")->default_value(words.time_encoding),
      "log: of the interval; decay: the GRU's state also fades between frames, as in GRU-D; "
      "time2vec: also learnt sinusoids of the time");
  add("fusion", text(words.fusion, "KIND")->default_value(words.fusion),
      "of streams: concat (side by side) or gated (weighted against each other at each instant)");
  add("dropout", number(model.dropout), "of projected features and before the head");
  add_covariates(description, words.covariates);
}

void add_fit(po::options_description& description, RawOptions& words, TrainOptions& options) {
  auto add = description.add_options();
  FitOptions& fit = options.fit;
  add("epochs", number(fit.epochs), "at most");
  add("batch", number(fit.batch), "exams per step");
  add("micro-batch", number(fit.micro_batch), "exams at a time within a step, 0: all");
  add("lr", number(fit.learning_rate), "learning rate at its highest");
  add("schedule", text(words.schedule, "KIND")->default_value(words.schedule),
      "cosine or constant, after a linear warm-up");
  add("weight-decay", number(fit.weight_decay), "AdamW's, of matrices");
  add("clip", number(fit.clip), "largest norm of the gradient, 0: any");
  add("train-frames", number(fit.train_frames), "frames drawn per exam and epoch, 0: all");
  add("views", text(words.views, "WHICH")->default_value(words.views),
      "train on the cache's augmented views, another one per exam and epoch: clean (none of them), "
      "all, or auto (all that there are)");
  add("patience", number(fit.patience),
      "epochs without a better validation part after which to stop, 0: never");
  add("early-stopping-metric",
      text(words.stopping_metric, "KIND")->default_value(words.stopping_metric),
      "what is better, also for the weights that are kept: a lower loss, or a higher metric "
      "(AUROC, "
      "ordinal: quadratic kappa, regression: R², TIME:EVENT: Harrell's C)");
  add("noise", number(fit.noise),
      "add Gaussian noise of this standard deviation to the standardised features of every frame");
  add("mixup", number(fit.mixup),
      "mix every exam with another one of its batch, by shares from Beta(N, N); 0: none");
  add("label-smoothing", number(fit.objective.label_smoothing),
      "classes: share of a label that all classes get alike");
  add("amp", text(words.amp, "KIND")->default_value(words.amp)->implicit_value("bf16"),
      "mixed precision: matrix products in bf16, or in fp16 with scaled gradients; off");
  add("class-weights", po::bool_switch(&fit.objective.class_weights),
      "every class counts the same");
  add("loss", text(words.loss, "KIND")->default_value(words.loss),
      "focal or focal=GAMMA for classes, mse, huber or huber=DELTA (standard deviations) for "
      "numbers; auto: cross-entropy, squared error");
  add("sampler", text(words.sampler, "KIND")->default_value(words.sampler),
      "order: every exam once per epoch; balanced: as many exams of every class");
  add("search", number(options.search),
      "try N settings of hidden, temporal-pool, dropout, noise, lr and weight-decay on every fold "
      "and take the best on its inner validation part; the first is the one given, and what "
      "differs from the defaults stays; 0: none");
  add("bootstrap", number(options.resamples), "resamples for the bands around curves");
}

std::vector<std::string> single_frame_words() {
  std::vector<std::string> words = words_in(single_frames());
  words.push_back(kBestFrame);
  return words;
}

void apply_folds(const std::string& word, TrainOptions& options) {
  options.each_patient = word == "patients";
  options.each_group = word == "groups";
  if (options.each_patient || options.each_group) return;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), options.folds);
  if (error != std::errc() || end != word.data() + word.size())
    throw ConfigError("--folds: expected a whole number, or patients or groups");
}

void apply_compare(const RawOptions& words, TrainOptions& options) {
  options.default_compare = words.compare == kAllControls;
  std::vector<std::string> names = split(words.compare, ',');
  if (words.compare.empty()) names.clear();
  if (options.default_compare) names = model_names([](auto& model) { return model.compared; });
  if (options.default_compare && options.tune.asked()) names.insert(names.begin(), kFrozen);
  std::vector<std::string> known = model_names();
  known.emplace_back(kFrozen);
  for (const std::string& word : names) {
    const std::string name = trim(word);
    if (name == options.model) continue;
    if (!name.starts_with(kOnlyPrefix)) choice("compare", name, known);
    if (!options.trains(name)) options.compare.push_back(name);
  }
}

// Caches with names are streams.
void apply_caches(TargetOptions& data) {
  const auto caches = named_caches(data.cache.string());
  if (caches.size() == 1) return;
  Arrangement& arrangement = data.arrangement;
  if (!arrangement.streams.empty())
    throw ConfigError(
        "--streams names the streams of one cache, and --cache NAME=PATH,… a cache of each; give "
        "one of them");
  arrangement.streams = cache::kStreamColumn;
  std::vector<std::string> words;  // in one order, whatever that of the command line
  for (const cache::NamedCache& cache : caches) {
    arrangement.stream_names.push_back(cache.name);
    words.push_back(concat(cache.name, "=", cache.path.string()));
  }
  data.cache = join(words, ",");
}

// Processes that a launcher starts together would else train the same run, each for itself.
void check_shared(const RawOptions& words, const TrainOptions& options) {
  if (options.step.several() && !words.shared)
    throw ConfigError(concat(options.step.count, " processes are started together (",
                             options.step.source,
                             "); with --shared they divide the run's fits among them, otherwise "
                             "start one"));
  if (words.shared && words.overwrite)
    throw ConfigError(
        "--shared joins the run that is there, and --overwrite replaces it; remove it yourself, or "
        "choose another --out");
  if (words.shared && !words.monitor.empty())
    throw ConfigError("--monitor watches one process, and several share the run; leave it out");
}

void apply_words(const RawOptions& words, TrainOptions& options) {
  require_given(words.cache, "cache");
  require_given(options.data.target, "target");
  if (!options.benchmark) require_given(words.out, "out");
  options.data.cache = words.cache;
  apply_caches(options.data);
  options.data.labels = words.labels;
  options.out = words.out;
  options.splits = words.splits;
  options.tune.from = words.from;
  if (!words.memory_budget.empty()) options.memory_budget = parse_bytes(words.memory_budget);
  if (!words.require.empty()) options.required = parse_requirements(words.require);
  options.monitor = words.monitor;
  options.against = words.against;
  if (options.benchmark && (options.required.asked() || !words.monitor.empty()))
    throw ConfigError(
        "--benchmark prints what a run takes; --require and --monitor are of the run");
  check_shared(words, options);
  options.features = choice<Residence>("features", words.features,
                                       {{"auto", Residence::kAuto},
                                        {"device", Residence::kDevice},
                                        {"memory", Residence::kMemory},
                                        {"stream", Residence::kStream}});
  apply_folds(words.folds, options);
  options.existing = {words.resume, words.overwrite, words.shared};
  options.pool_given = !words.pool.empty();
  if (options.pool_given) {
    options.architecture.pool = choice<TemporalPool>("temporal-pool", words.pool,
                                                     {{"last", TemporalPool::kLast},
                                                      {"mean", TemporalPool::kMean},
                                                      {"attention", TemporalPool::kAttention}});
  }
  options.time = choice<TimeInput>(
      "time", words.time,
      {{"auto", TimeInput::kAuto}, {"on", TimeInput::kOn}, {"off", TimeInput::kOff}});
  options.views = choice<ViewChoice>(
      "views", words.views,
      {{"auto", ViewChoice::kAuto}, {"clean", ViewChoice::kClean}, {"all", ViewChoice::kAll}});
  options.architecture.gated =
      choice<bool>("fusion", words.fusion, {{"concat", false}, {"gated", true}});
  options.architecture.time_encoding = choice("time-encoding", words.time_encoding, kTimeEncodings);
  options.fit.stopping_metric =
      choice("early-stopping-metric", words.stopping_metric, kStoppingMetrics);
  options.fit.schedule = choice("schedule", words.schedule, kSchedules);
  choice("task", options.data.task, task_words());
  options.fit.objective.loss = parse_loss(words.loss);
  options.fit.balanced =
      choice<bool>("sampler", words.sampler, {{"order", false}, {"balanced", true}});
  options.fit.precision = choice<torch::ScalarType>(
      "amp", words.amp,
      {{"off", torch::kFloat32}, {"bf16", torch::kBFloat16}, {"fp16", torch::kFloat16}});
  choice("model", options.model, model_names());
  choice("single-frame", options.single_frame, single_frame_words());
  apply_compare(words, options);
  apply_covariates(words.covariates, options);
}

}  // namespace

std::vector<std::string> TrainOptions::models() const {
  std::vector<std::string> names = {model};
  names.insert(names.end(), compare.begin(), compare.end());
  return names;
}

bool tunes(const std::string& model) {
  const NamedModel* named = find_model(model);
  return named == nullptr ? model.starts_with(kOnlyPrefix)
                          : named->architecture->sees_frames && !named->blank;
}

bool TrainOptions::trains(const std::string& wanted) const {
  return model == wanted || std::ranges::find(compare, wanted) != compare.end();
}

bool parse_train_options(const std::vector<std::string>& arguments, TrainOptions& options) {
  RawOptions words;
  po::options_description data, run, splits, model, fit, tune, report, machine;
  add_data(data, words.cache, words.labels, options.data);
  auto add = data.add_options();
  add("streams", text(options.data.arrangement.streams, "COLUMN"),
      "frames of several streams (FA and ICGA, T1 and T2) become one input per instant; COLUMN, of "
      "frames, names each one's stream");
  add("visits", text(options.data.arrangement.visits, "COLUMN"),
      "read every exam with all earlier ones of its patient before it; COLUMN has the visits' "
      "times as dates or in days (start_time: those of the exams themselves)");
  add("task", text(options.data.task, "TASK")->default_value(options.data.task),
      join(task_words(), ", ").c_str());
  add("positive", text(options.data.positive, "VALUE"),
      "binary: which value is the positive class; of TIME:EVENT: which says that the event came");
  add_horizons(data, options.data);
  add = run.add_options();
  add("out", text(words.out, "RUN"), "the run folder to make");
  add("resume", po::bool_switch(&words.resume), "continue an interrupted run");
  add("overwrite", po::bool_switch(&words.overwrite), "replace a run of the same name");
  add("shared", po::bool_switch(&words.shared),
      "share the run's fits with every other process that is started with the same command, on any "
      "machine that sees RUN; one of them writes the report");
  add_split(splits, words, options);
  add_model(model, words, options);
  add_fit(fit, words, options);
  add_tune(tune, words.from, options);
  add_questions(report, options.questions);
  report.add_options()("against", text(words.against, "RUN"),
                       "compare with this finished run, paired, on the exams that both hold out: "
                       "against.html, and `against` in summary.json");
  add_machine(machine, options.device, options.threads, options.json);
  add_resources(machine, words, options);
  add("benchmark", po::bool_switch(&options.benchmark),
      "train for a few seconds and print what a run will take; nothing is written");
  add("list", po::value<std::string>()->value_name("RUNS"), "compare runs; see --list --help");
  const auto description = with_most_used_first({"cache", "target", "out", "labels", "model",
                                                 "compare", "folds", "seeds", "device", "resume"},
                                                {{"Target", data},
                                                 {"Run", run},
                                                 {"Splits", splits},
                                                 {"Model", model},
                                                 {"Training", fit},
                                                 {"Training of the ViT", tune},
                                                 {"Report", report},
                                                 {"Machine", machine}});
  GivenOptions given;
  if (!parse_command_line(kTrainHelp, description, arguments, "", &given)) return false;
  if (given.contains("list"))
    throw ConfigError("list: --list belongs on the command line, not into the file of --config");
  options.step = job_step(from_environment);
  apply_words(words, options);
  check_bounds(options);
  check_named_files(options);
  return true;
}

}  // namespace coldframe::temporal

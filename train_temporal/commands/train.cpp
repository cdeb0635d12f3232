#include <c10/util/Exception.h>
#include <torch/version.h>
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/cli/cli.h"
#include "common/cli/error.h"
#include "common/cli/interrupt.h"
#include "common/cli/log.h"
#include "common/files/csv.h"
#include "common/files/fingerprint.h"
#include "common/files/json.h"
#include "common/files/publish/atomic_file.h"
#include "common/system/resources.h"
#include "common/text/text.h"
#include "common/torch/device.h"
#include "common/torch/memory.h"
#include "train_temporal/commands/benchmark.h"
#include "train_temporal/commands/commands.h"
#include "train_temporal/commands/run_files.h"
#include "train_temporal/commands/run_list.h"
#include "train_temporal/data/dataset.h"
#include "train_temporal/explain/example_exams.h"
#include "train_temporal/explain/maps.h"
#include "train_temporal/fit/memory_plan.h"
#include "train_temporal/fit/tune/measured_costs.h"
#include "train_temporal/fit/tune/trained_parameters.h"
#include "train_temporal/labels/labels.h"
#include "train_temporal/labels/split.h"
#include "train_temporal/labels/task_kind.h"
#include "train_temporal/models/model_config.h"
#include "train_temporal/models/model_file.h"
#include "train_temporal/run/cohort.h"
#include "train_temporal/run/confounds.h"
#include "train_temporal/run/covariates.h"
#include "train_temporal/run/cross_validation.h"
#include "train_temporal/run/devices.h"
#include "train_temporal/run/exam_checks.h"
#include "train_temporal/run/methods.h"
#include "train_temporal/run/near_copies.h"
#include "train_temporal/run/options.h"
#include "train_temporal/run/results.h"
#include "train_temporal/run/run_folder.h"
#include "train_temporal/run/search.h"
#include "train_temporal/run/unlike_training.h"
#include "train_temporal/run/warm_start.h"

namespace coldframe::temporal {

// Options of `coldframe train` that only some models or tasks can follow.

// ConfigError for options that none of the models to be trained can follow.
void check_model_options(const TrainOptions& options);

// Without --compare, what `auto` chooses among stands beside it. Where no fit can be a summary, it
// becomes `gru`, and the log says why.
void resolve_auto(TrainOptions& options, const Targets& targets);

// For a bare `--compare`: removes the models that cannot learn these targets, and says so.
void leave_out_controls(TrainOptions& options, const Targets& targets);
// For a bare `--compare`: adds the main model on each stream by itself. ConfigError where a named
// one is not among `streams`.
void add_streams_alone(TrainOptions& options, const std::vector<std::string>& streams);
// ConfigError for what the options ask and the targets, whose tasks are known once they are read,
// do not allow.
void check_task_options(const TrainOptions& options, const Targets& targets);

// Decides `time` and `elapsed`, the time inputs of models that read frames in order.
void choose_times(const TrainOptions& options, std::span<const cache::ExamInfo> exams,
                  std::span<const std::size_t> used, ModelConfig& config);

// Warns of mixed precision on a processor that has no such arithmetic: it takes longer there.
void warn_of_emulated_precision(torch::ScalarType precision, const torch::Device& device);

// What a training run alone has to tell: its curves, warnings of fits, and how it compares with an
// earlier run.

std::vector<std::size_t> exams_in(const std::vector<Split>& splits);
// Covers everything that the fits depend on: splits, labels, covariates and which features of which
// exams.
std::string data_digest(const Cohort& cohort, const std::vector<Split>& splits);
FoldCurve curve_of(const FinishedFit& fit);

// Adds the comparison with --against to the run and its summary; its text, empty where there is
// none. A run whose exams the other knows by other labels is warned of and not lost.
std::string compare_with_earlier(const TrainOptions& options, const RunFolder& folder,
                                 Json& summary);

// Prints the comparison of a run that was finished before, where --against asks for one.
void tell_comparison(const TrainOptions& options);

// Warns of fits that diverged, and of those of the main model, which reports call `name`, that kept
// the weights of their first epoch, or those that they went on from.
std::vector<std::string> fit_warnings(const std::vector<FinishedFit>& fits,
                                      const TrainOptions& options, const std::string& name);

// `coldframe train`: the ViT that is trained with the model (--tune), or looked into (--maps).

// Null without --tune. Puts the number of blocks that are trained into the options. ConfigError and
// DataError: no cut in the cache, another ViT than the cache's, more blocks than lie behind the
// cut.
std::unique_ptr<tune::TunedSource> open_vit(TrainOptions& options, const Cohort& cohort);

// What steps of the ViT take: as the run began with, by its configuration, or measured now (`begun`
// has none). Null without --tune. DataError: the configuration is damaged.
std::shared_ptr<const tune::ChainCosts> vit_costs(const Experiment& experiment, const Json& begun);

// TuneFit::model_rate: as the run began, by its configuration (`begun` has none: as runs begin
// now).
double tuned_model_rate(const Json& begun);

// SystemError, before anything is fitted, when the budget leaves nothing to the ViT's step.
void check_tuning(const Experiment& experiment);

// ConfigError and DataError for --maps before anything is fitted: nothing to map, or wrong weights.
void check_example_maps(const TrainOptions& options, const Cohort& cohort, const ModelConfig& main);

Json tune_json(const TrainOptions& options, const tune::TunedSource& source);  // for config.json

namespace {

bool asks_for_intervals(const TrainOptions& options) {
  return options.time == TimeInput::kOn || options.time == TimeInput::kIntervals;
}

bool reads_in_order(const ModelConfig& model) {
  return model.architecture->ordered;
}

// Blocks of a volume have an order that means nothing.
std::string warn_of_blocks(const cache::Recipe& recipe, const TrainOptions& options) {
  const Json pixels = recipe.features.value("preprocessing", Json::object());
  const bool rows_are_blocks = pixels.contains("block") && !pixels.contains("blend");
  if (!rows_are_blocks || std::ranges::none_of(trained_models(options), reads_in_order)) return "";
  return "rows are blocks of volumes, whose order means nothing, and a model reads them in it: "
         "--model mean or --model attention reads them as a set";
}

// Of those to be trained, the models that would see the time since a zero that all exams share.
std::vector<std::string> models_of_zero(const TrainOptions& options) {
  if (options.time == TimeInput::kIntervals) return {};
  std::vector<std::string> seeing = options.models();
  const std::vector<ModelConfig> models = trained_models(options);
  std::size_t next = 0;
  std::erase_if(seeing, [&](const std::string&) {
    const ModelConfig& model = models[next++];
    const bool sees = reads_in_order(model) && options.time != TimeInput::kOff;
    return !sees && model.architecture != &kClock;
  });
  return seeing;
}

// Intervals that no model would see. `intervals` also hides the zero from `clock`.
void check_time(const TrainOptions& options) {
  if (!asks_for_intervals(options)) return;
  if (std::ranges::any_of(trained_models(options), reads_in_order)) return;
  if (options.time == TimeInput::kIntervals && options.trains(kClock.name)) return;
  throw ConfigError(concat("--time on and intervals are for models that read frames in order, and ",
                           join(options.models(), ", "),
                           " has none; leave the option out, or take another --model"));
}

void check_streams(const TrainOptions& options) {
  const bool streams = !options.data.arrangement.stream_column.empty();
  for (const std::string& name : options.compare)
    if (!streams && name.starts_with(kOnlyPrefix))
      throw ConfigError(concat("model ", name,
                               " sees one of several streams; name the column of "
                               "these by --streams, or a cache of each by --cache NAME=PATH,…"));
  if (!streams && options.architecture.gated)
    throw ConfigError(
        "--fusion gated weighs streams; name the column of these by --streams, or a cache of each "
        "by --cache NAME=PATH,…");
  if (streams && options.tune.asked())
    throw ConfigError(
        "streams are merged of cached features, and --tune makes these anew; give one");
  if (options.architecture.gated && options.covariates.at_frames)
    throw ConfigError(
        "--fusion gated has no place for --covariates-at frames; take --covariates-at head");
}

void check_inputs(const TrainOptions& options) {
  if (options.inputs == word_for(kInputs, Inputs::kLevel)) return;
  const bool streams = !options.data.arrangement.stream_column.empty();
  if (streams || options.tune.asked())
    throw ConfigError(concat(
        "--inputs ", options.inputs, " takes differences between frames, ",
        streams ? "which streams may each lack" : "and --tune trains what is made of each frame",
        "; leave it out"));
}

void check_width(const TrainOptions& options) {
  if (options.architecture.hidden % 2 == 0) return;
  for (const ModelConfig& model : trained_models(options)) {
    if (!model.architecture->even_width) continue;
    throw ConfigError(concat("--hidden ", options.architecture.hidden, ": a ",
                             model.architecture->name,
                             " wants an even width, as times turn its values in pairs; take one "
                             "more or less, or another --model"));
  }
}

void check_time_encoding(const TrainOptions& options) {
  if (options.time == TimeInput::kOff && options.architecture.time_encoding != TimeEncoding::kLog) {
    throw ConfigError("--time-encoding encodes the intervals that --time off hides; give one");
  }
  if (options.architecture.time_encoding != TimeEncoding::kDecay) return;
  for (const ModelConfig& model : trained_models(options)) {
    const bool decays = model.architecture->decays && !model.bidirectional;
    if (decays || !model.architecture->ordered) continue;
    throw ConfigError(
        "--time-encoding decay is for a GRU in one direction; leave out --bidirectional, bigru, "
        "lstm, transformer and tcn, or take another encoding");
  }
}

// Label smoothing and mixup need labels that can be mixed.
void check_soft_labels(const TrainOptions& options, const Targets& targets) {
  const ObjectiveOptions& objective = options.fit.objective;
  const auto smoothed = [](const Labels& one) { return one.kind().takes_smoothing(); };
  if (objective.label_smoothing > 0) {
    if (objective.loss.kind == LossKind::kFocal) {
      throw ConfigError(
          "--label-smoothing changes the cross-entropy, and --loss focal is another loss; give "
          "one");
    }
    if (std::ranges::none_of(targets, smoothed)) {
      throw ConfigError(concat("--label-smoothing needs binary or multi-class labels, and '",
                               targets[0].name, "' is learnt as ", task_name(targets[0].task)));
    }
  }
  if (options.fit.mixup == 0) return;
  if (targets.per_frame()) {
    throw ConfigError(concat("--mixup mixes whole exams, and '", targets.names(),
                             "' has a value per frame; leave the option out"));
  }
  for (const Labels& one : targets) {
    if (const std::string why = one.kind().unmixable(one); !why.empty())
      throw ConfigError(concat("--mixup has no meaning for '", one.name, "': ", why));
  }
}

bool has_output_per_exam(const std::string& model) {
  const NamedModel* named = find_model(model);
  return named != nullptr && !named->learns_frames;
}

}  // namespace

void warn_of_emulated_precision(torch::ScalarType precision, const torch::Device& device) {
  if (precision == torch::kFloat32 || !device.is_cpu()) return;
  const bool is_bf16 = precision == torch::kBFloat16;
  const bool has =
      is_bf16 ? __builtin_cpu_supports("avx512bf16") : __builtin_cpu_supports("avx512fp16");
  if (has) return;
  const char* name = is_bf16 ? "bf16" : "fp16";
  log_warning(concat("--amp ", name, ": this processor has no ", name,
                     " arithmetic and converts every number, which takes longer than float32; "
                     "leave --amp out"));
}

void check_model_options(const TrainOptions& options) {
  if (options.single_frame != TrainOptions().single_frame && !options.trains(kSingle)) {
    throw ConfigError(concat("--single-frame ", options.single_frame, " is for the model single, ",
                             "which is not among ", join(options.models(), ", "),
                             "; add it to --compare, or leave the option out"));
  }
  if (options.search > 0 && options.model == kSingle && options.single_frame == kBestFrame) {
    throw ConfigError(
        "--search tries settings on one frame, and --single-frame best chooses among three; name "
        "first, middle or last, or leave --search out");
  }
  const NamedModel* main = find_model(options.model);
  if (main != nullptr && !main->architecture->by_steps &&
      (options.search > 0 || options.tune.asked()))
    throw ConfigError(concat("--model ", options.model,
                             " is fitted exactly, to features as they are cached: ",
                             options.search > 0 ? "--search" : "--tune",
                             " has nothing to train; leave it out, or take another --model"));
  check_time(options);
  check_streams(options);
  check_inputs(options);
  check_width(options);
  check_time_encoding(options);
}

void resolve_auto(TrainOptions& options, const Targets& targets) {
  const bool has_choice = !options.tune.asked() && !targets.per_frame();
  if (has_choice && options.model == kAutoModel && !options.given.contains("compare"))
    options.compare = {kGru.name, kSummaryModel};
  if (has_choice || !options.trains(kAutoModel)) return;
  log_info(concat("--model auto is gru in every fit: a summary has ",
                  options.tune.asked() ? "no steps that could train the ViT"
                                       : "one output per exam, and the target a value per frame"));
  if (options.model == kAutoModel) {
    options.model = kGru.name;
    std::erase(options.compare, options.model);
  }
  const bool compared = std::erase(options.compare, kAutoModel) > 0;
  if (compared && !options.trains(kGru.name)) options.compare.emplace_back(kGru.name);
}

void leave_out_controls(TrainOptions& options, const Targets& targets) {
  if (!targets.per_frame() || !options.default_compare) return;
  std::vector<std::string> left_out;
  std::erase_if(options.compare, [&](const std::string& model) {
    const bool of_exams = has_output_per_exam(model);
    if (of_exams) left_out.push_back(model);
    return of_exams;
  });
  if (left_out.empty()) return;
  log_info(concat("--compare without ", join(left_out, ", "), ": one output per exam, and '",
                  targets.names(), "' has a value per frame"));
}

void add_streams_alone(TrainOptions& options, const std::vector<std::string>& streams) {
  ModelConfig config;
  config.streams = streams;
  for (const std::string& name : options.compare)
    if (name.starts_with(kOnlyPrefix)) set_model(config, name);
  if (!options.default_compare) return;
  for (const std::string& name : streams) options.compare.push_back(kOnlyPrefix + name);
}

void check_task_options(const TrainOptions& options, const Targets& targets) {
  const LossOptions& loss = options.fit.objective.loss;
  if (std::ranges::none_of(targets, [&](const Labels& one) { return applies(loss, one.task); })) {
    throw ConfigError(concat("--loss ", to_string(loss), " fits no target here: '", targets[0].name,
                             "' is learnt as ", task_name(targets[0].task)));
  }
  check_soft_labels(options, targets);
  const bool classes = std::ranges::any_of(targets, &Labels::has_classes);
  if (options.fit.objective.class_weights && !classes) {
    throw ConfigError(concat("--class-weights needs classes, and '", targets[0].name,
                             "' is learnt as ", task_name(targets[0].task)));
  }
  if (options.fit.balanced && (targets.size() > 1 || targets.per_frame() || !classes)) {
    throw ConfigError("--sampler balanced needs a single target of exams, with classes");
  }
  if (!targets.per_frame()) return;
  if (options.single_frame != TrainOptions().single_frame) {
    throw ConfigError(concat("--single-frame names one frame of an exam, but '", targets.names(),
                             "' has a value per frame, and single then sees each by itself; leave "
                             "the option out"));
  }
  if (options.given.contains("temporal-pool")) {
    throw ConfigError(concat("--temporal-pool makes one output of all frames, but '",
                             targets.names(), "' has a value per frame; leave the option out"));
  }
  for (const std::string& model : options.models()) {
    if (!has_output_per_exam(model)) continue;
    std::vector<std::string> able;
    for (const NamedModel& named : named_models()) {
      const char* about = named.about_frames;
      if (named.learns_frames)
        able.push_back(about == nullptr ? named.name : concat(named.name, " (", about, ")"));
    }
    throw ConfigError(concat("model ", model, " has one output per exam, and '", targets.names(),
                             "' a value per frame; expected one of ", join(able, ", ")));
  }
}

void choose_times(const TrainOptions& options, std::span<const cache::ExamInfo> exams,
                  std::span<const std::size_t> used, ModelConfig& config) {
  // Times of joined visits count from the first visit.
  const bool one_zero = options.data.arrangement.visits.empty();
  config.elapsed =
      options.time != TimeInput::kIntervals && one_zero && has_common_zero(exams, used);
  const bool automatic = options.time == TimeInput::kAuto;
  config.time = asks_for_intervals(options) ||
                (automatic && (config.elapsed || times_are_informative(exams, used)));
  if (automatic && !config.time && config.time_encoding != TimeEncoding::kLog) {
    throw ConfigError(
        "--time-encoding needs intervals between frames, and these are unknown or even; leave it "
        "out, or give them to the model all the same with --time on");
  }
  const auto seeing = models_of_zero(options);
  const std::size_t without = exams_without_start(exams, used);
  if (config.elapsed && !seeing.empty()) {
    log_info(concat(
        "exams start at different times after a zero that all share: ", join(seeing, ", "),
        seeing.size() == 1 ? " sees" : " see", " the time since it (--time intervals to hide it)"));
  } else if (one_zero && !seeing.empty() && without > 0 && without < used.size()) {
    log_warning(concat(without, " of ", plural(used.size(), "exam"),
                       " state no start after the zero that the others count from, so no model "
                       "sees the time since it; give these a start, or leave them out"));
  }
  if (!automatic || config.elapsed) return;
  if (std::ranges::none_of(trained_models(options), reads_in_order)) return;
  const auto known = static_cast<std::size_t>(std::ranges::count_if(used, [&](std::size_t exam) {
    return clock_descriptor(exams[exam], {})[kClockUntimed] == 0;
  }));
  const std::string of = known == used.size() ? "even"
                         : known == 0         ? "unknown"
                                              : concat("known of ", known, " of ", used.size(),
                                                       " exams, and of most unknown or even");
  log_info(config.time ? "time intervals are uneven: the model sees them (--time off to hide them)"
                       : concat("time intervals are ", of,
                                ": not shown to the model (--time on to show them)"));
}

std::vector<std::size_t> exams_in(const std::vector<Split>& splits) {
  std::set<std::size_t> exams;
  for (const Split& split : splits) {
    for (const auto& [name, part] : parts_of(split)) exams.insert(part->begin(), part->end());
  }
  return {exams.begin(), exams.end()};
}

std::string data_digest(const Cohort& cohort, const std::vector<Split>& splits) {
  std::string content = splits_to_csv(splits, cohort.exams(), cohort.patients);
  for (std::size_t index : cohort.labeled()) {
    const cache::ExamInfo& exam = cohort.exams()[index];
    std::vector<std::string> row = cohort.cache.provenance(index);
    row.insert(row.begin(), exam.id);
    for (const Labels& labels : cohort.targets) {
      for (std::size_t i = 0; i < labels.rows(index); ++i)
        row.push_back(exact(labels.at(index, i)));
    }
    for (double time : exam.time_s) row.push_back(exact(time));
    for (int present : exam.present) row.push_back(std::to_string(present));
    for (const CovariateColumn& column : cohort.covariates) row.push_back(column.values[index]);
    content += csv_row(row);
  }
  return sha256_hex(content);
}

FoldCurve curve_of(const FinishedFit& fit) {
  FoldCurve curve{fit.name.repeat, fit.name.fold, fit.name.seed, {}, {}, fit.record.best_epoch};
  for (const EpochLosses& losses : fit.record.history) {
    curve.train_loss.push_back(losses.train);
    curve.validation_loss.push_back(losses.validation);
  }
  return curve;
}

std::vector<std::string> fit_warnings(const std::vector<FinishedFit>& fits,
                                      const TrainOptions& options, const std::string& name) {
  std::vector<std::string> warnings;
  std::size_t count = 0, first = 0;
  for (const FinishedFit& fit : fits) {
    const FitRecord& record = fit.record;
    if (record.diverged) {
      warnings.push_back(concat(fit.name.stem(), ": the loss was not a finite number in epoch ",
                                record.history.size(), "; the best epoch before it, ",
                                record.best_epoch, ", is used (try a lower --lr)"));
    }
    if (fit.name.model != options.model) continue;
    ++count;
    first += record.best_epoch == 0 && record.history.size() > 1;
  }
  if (first == 0) return warnings;
  const std::string who = concat(first, " of ", plural(count, "fit"), " of ", name, " kept ");
  warnings.push_back(
      options.tune.asked()
          ? concat(who,
                   "what they went on from: with the ViT tuned, the validation part got no "
                   "better (try another --tune-lr, fewer --tune-blocks, or --lora)")
          : concat(who,
                   "the first epoch: the validation part got no better after it, so these have "
                   "learnt next to nothing that holds on other patients (there may be nothing "
                   "to learn; else try a lower --lr, more --noise or --dropout, or --search)"));
  return warnings;
}

namespace {

RunReport compare(const std::filesystem::path& run, const TrainOptions& options) {
  return compare_held_out(run, options.against, options.bootstrap,
                          options.questions.of_predictions());
}

}  // namespace

void tell_comparison(const TrainOptions& options) {
  if (options.against.empty()) return;
  const RunReport both = compare(options.out, options);
  std::cout << (options.json ? metrics_json(both).dump(2) + "\n" : summary_text(both));
}

std::string compare_with_earlier(const TrainOptions& options, const RunFolder& folder,
                                 Json& summary) {
  if (options.against.empty()) return {};
  try {
    const RunReport both = compare(folder.file(""), options);
    summary["against"] = metrics_json(both);
    write_file_atomically(folder.file("against.html"), report_page(both).finish());
    return "\n" + summary_text(both);
  } catch (const Interrupted&) {
    throw;
  } catch (const Error& error) {
    log_warning(concat("not compared with '", options.against.string(), "': ", error.what()));
    return {};
  }
}

namespace {

void resolve_blocks(std::int64_t& blocks, const tune::TunedSource& source) {
  const std::int64_t depth = source.architecture().depth, behind = depth - source.cut();
  if (behind == 0) {
    throw ConfigError(concat("the cache is cut after the last of ", depth,
                             " blocks, so that none can be trained; extract with --cut ", depth - 1,
                             " or less"));
  }
  if (blocks > behind) {
    throw ConfigError(concat("--tune-blocks ", blocks, ": the cache is cut at block ", source.cut(),
                             " of ", depth, ", so that at most ", behind, " can be trained; ",
                             blocks > depth ? std::string("take fewer")
                                            : concat("extract with --cut ", depth - blocks)));
  }
  if (blocks == 0) blocks = behind;
}

// `leave_out`: what the user may do without.
std::unique_ptr<tune::TunedSource> read_vit(const Cohort& cohort, const std::string& weights,
                                            const char* leave_out) {
  try {
    return std::make_unique<tune::TunedSource>(cohort.cache.recipe().features,
                                               cohort.cache.cut()->block, weights);
  } catch (const c10::OutOfMemoryError& error) {
    throw SystemError(concat("the ViT's weights do not fit into memory: ", first_line(error),
                             "; raise --memory-budget, or leave out ", leave_out));
  }
}

}  // namespace

std::unique_ptr<tune::TunedSource> open_vit(TrainOptions& options, const Cohort& cohort) {
  if (!options.tune.asked()) return nullptr;
  if (!cohort.cache.cut()) {
    throw ConfigError(concat("--tune: '", options.data.cache.string(),
                             "' holds features alone; extract with --cut BLOCK, which keeps what "
                             "enters that block of the ViT"));
  }
  const std::string weights = options.tune.weights == kRandomWeights ? "" : options.tune.weights;
  auto source = read_vit(cohort, weights, "--tune");
  tune::TuneOptions& vit = options.fit.tune.vit;
  resolve_blocks(vit.blocks, *source);
  log_info(concat(vit.lora_rank > 0
                      ? concat("low-rank matrices of rank ", vit.lora_rank, " beside ")
                      : std::string("tuning "),
                  "the last ", plural(static_cast<std::size_t>(vit.blocks), "block"), " of ",
                  source->architecture().depth, ", the model first on cached features"));
  return source;
}

std::shared_ptr<const tune::ChainCosts> vit_costs(const Experiment& experiment, const Json& begun) {
  if (experiment.tuned == nullptr) return nullptr;
  const FitOptions& fit = experiment.options.fit;
  set_torch_threads(fit.tune.threads);
  const tune::ChainShape shape = tune::trained_shape(*experiment.tuned, vit_options(fit));
  try {
    if (const auto known = begun.find(kVitCosts); known != begun.end()) {
      auto costs = std::make_shared<tune::ChainCosts>(tune::costs_from_json(*known));
      if (tune::are_of(*costs, shape, experiment.device())) return costs;
      log_warning(concat("what '", kVitCosts, "' in the run's config.json says is of ",
                         costs->shape,
                         " or of other steps than these: steps of the ViT are measured again, and "
                         "may be divided otherwise, which changes last bits"));
    }
    const auto measured =
        std::make_shared<tune::ChainCosts>(tune::measure_costs(shape, experiment.device()));
    reset_device_memory_peak(experiment.device());  // the run's own peak is what is told
    return measured;
  } catch (const c10::OutOfMemoryError& error) {
    throw SystemError(concat("a block of the ViT does not fit into memory: ", first_line(error),
                             "; raise --memory-budget, or leave out --tune"));
  }
}

double tuned_model_rate(const Json& begun) {
  if (begun.empty()) return TuneFit().model_rate;
  const auto known = begun.find(kTunedModelRate);
  const bool kept = known != begun.end() && known->is_number();
  return kept ? known->get<double>() : 1;  // runs that kept none went on at the whole rate
}

void check_example_maps(const TrainOptions& options, const Cohort& cohort,
                        const ModelConfig& main) {
  if (!options.maps) return;
  ModelMetadata card;
  card.config = main;
  card.recipe = cohort.cache.recipe();
  card.arrangement = options.data.arrangement;
  if (options.tune.asked()) card.tuned.emplace();
  check_maps(card, options.weights);
  require_cut(cohort.cache);
  require_explained(cohort.targets.list(), "--maps");
  // Fits need the memory: the weights are read again for the maps.
  if (!card.tuned) read_vit(cohort, options.weights.string(), "--maps");
}

void check_tuning(const Experiment& experiment) {
  if (experiment.tuned == nullptr) return;
  for (const Split& split : experiment.splits)
    plan_tuning(experiment.task({experiment.options.model, split.repeat, split.fold, 0}, split));
}

Json tune_json(const TrainOptions& options, const tune::TunedSource& source) {
  Json json = {{"cut", source.cut()}};
  json.update(options_json(options, "tune"));
  return json;
}

// `coldframe train`: cohort → folds → fits → report, in a run folder.

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
                            const std::vector<torch::Device>& devices,
                            FeaturePlacement where) const;
  void load_features();
  void look_for_near_copies();
  void leave_out_summary();
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
            options_.existing.part,
            same_length_};
  }
  void search(const RunFolder& folder);
  void add_search(TargetReport& report) const;
  void warn_of_fits(const std::vector<FinishedFit>& fits);
  RunReport report(const std::vector<ModelPredictions>& models,
                   const std::vector<ModelPredictions>& shuffled,
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
  bool same_length_ = false;
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
  options_.fit.tune.model_rate = tuned_model_rate(begun);
  check_earlier_run(experiment(), cohort_);
  choose_device(begun);
  load_features();
  if (folder != nullptr && !folder->finished()) look_for_near_copies();
  leave_out_summary();
  options_.fit.tune.vit.costs = vit_costs(experiment(), begun);
  options_.fit.tune.vit.learnt = std::make_shared<tune::LearntBudget>();
  check_tuning(experiment());
}

// Adds what depends on the splits, and logs decisions and warnings.
void TrainingRun::complete_cohort() {
  cohort_.covariates = read_covariates(cohort_, splits_, options_);
  for (std::string& warning : unlearnt_streams(cohort_.cache, splits_))
    cohort_.warnings.push_back(std::move(warning));
  for (const std::string& note : cohort_.notes) log_info(note);
  for (const Labels& labels : cohort_.targets)
    if (const std::string several = tell_several_classes(cohort_, labels); !several.empty())
      log_info(several);
  if (std::string falling = warn_of_falling_times(cohort_.cache, cohort_.labeled());
      !falling.empty())
    cohort_.warnings.push_back(std::move(falling));
  if (std::string blocks = warn_of_blocks(cohort_.cache.recipe(), options_); !blocks.empty())
    cohort_.warnings.push_back(std::move(blocks));
  for (const std::string& warning : cohort_.warnings) log_warning(warning);
}

// A continued run keeps its kind of device. GPUs are taken without measurement if a ViT is tuned,
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
                                       FeaturePlacement where) const {
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

// What cannot be looked for costs no training.
void TrainingRun::look_for_near_copies() {
  try {
    std::string found = warn_of_near_copies(datasets_.front(), cohort_, exams_in(splits_));
    if (found.empty()) return;
    log_warning(found);
    cohort_.warnings.push_back(std::move(found));
  } catch (const std::exception& error) {
    log_warning(concat("not looked for exams that are nearly the same: ", first_line(error)));
  }
}

// Nobody named it, and the budget holds none: neither beside auto nor within it.
void TrainingRun::leave_out_summary() {
  const bool named = options_.given.contains("compare") && !options_.default_compare;
  if (named || options_.model != kAutoModel) return;
  if (candidates(experiment(), options_.model).size() == 1)
    std::erase(options_.compare, kSummaryModel);
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
  const auto frames = [&](std::size_t exam) { return present_frames(cohort_.exams()[exam]); };
  same_length_ = std::ranges::all_of(
      used, [&](std::size_t exam) { return frames(exam) == frames(used.front()); });
  if (options_.trains(kBlank) && experiment().is_constant(experiment().config({kBlank, 0, 0, 0})))
    log_info(
        "blank sees neither times nor differences of length here: it predicts what the training "
        "part holds, the same for all exams, and takes no steps");
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
  if (tuned_) {
    json[kTunedModelRate] = options_.fit.tune.model_rate;
    json[kVitCosts] = tune::to_json(*options_.fit.tune.vit.costs);
  }
  json["data_digest"] = data_digest(cohort_, splits_);
  json["cache_digest"] = cohort_.cache.recipe().cache_digest();
  json["feature_digest"] = cohort_.cache.recipe().feature_digest();
  const cache::Recipe& recipe = cohort_.cache.recipe();
  json["recipe"] = cache::to_json(recipe);
  if (const std::string license = recipe.note(cache::kWeightsLicense); !license.empty())
    json[cache::kWeightsLicense] = license;
  return json;
}

int TrainingRun::run(RunFolder& folder) {
  log_info(concat("training ", join(options_.models(), ", "), " on ", cohort_.targets.labeled(),
                  " exams: ", split_text_));
  if (options_.memory_budget > 0)
    log_info(concat("--memory-budget bounds tensors to ", human_bytes(options_.memory_budget),
                    "; the process takes LibTorch and what it keeps on top"));
  const Json begun = folder.begun();  // of parts, by the first one, which may be another
  options_.fit.tune.threads = threads_of_tuning(experiment(), begun);
  options_.fit.tune.model_rate = tuned_model_rate(begun);
  if (begun.contains(kVitCosts)) options_.fit.tune.vit.costs = vit_costs(experiment(), begun);
  search(folder);
  const auto fits = run_fits(experiment(), folder);
  if (folder.part().shared()) {
    log_info(concat(folder.part().text(), ": all of its fits are done; when all parts are, the ",
                    "same command with --resume instead of --part writes the report"));
    return 0;
  }
  warn_of_fits(fits);
  const auto threshold = asked_.questions.threshold;
  const auto models = assemble(fits, cohort_, options_, threshold);
  const auto shuffled = assemble(shuffled_grus(experiment(), folder), cohort_, options_, threshold);
  write_tables(folder, experiment(), cohort_, fits, models);
  write_models(folder, experiment(), cohort_, source_kinds_, fits, models);
  write_unlike_training(datasets_.front(), splits_, folder.file(kUnlikeFile));
  RunReport result = report(models, shuffled, fits);
  Json summary = metrics_json(result);
  for (const TargetReport& target : result.targets) {
    for (const std::string& warning : data_warnings(target)) log_warning(warning);
  }
  const std::string beside = compare_with_earlier(options_, folder, summary);
  const MemoryUse memory = memory_use(fits, experiment());
  summary["memory"] = to_json(memory);
  summary["seconds"] = std::chrono::duration<double>(Clock::now() - started_).count();
  write_file_atomically(folder.file("summary.json"), summary.dump(2) + "\n");
  write_file_atomically(folder.file("METHODS.md"), methods_text(config(), summary));
  cache::Pictures pictures(cohort_.cache,
                           options_.questions.without_thumbnails ? 0 : cache::kMaxPictureBytes);
  result.targets.front().examples =
      explain_examples(models.front(), cohort_, datasets_.front(), folder.file(""), pictures,
                       options_.maps ? std::optional(options_.weights) : std::nullopt);
  show_held_out(models.front(), cohort_, pictures, result.targets.front());
  const html::Page page = report_page(result);
  write_file_atomically(folder.file("report.html"), page.finish());
  if (options_.questions.figures) write_figures(folder.file(""), result, page);
  folder.publish();
  std::cout << (options_.json ? summary.dump(2) + "\n" : summary_text(result) + beside);
  if (memory.budget > 0) log_info(concat("memory: ", to_text(memory)));
  log_info(concat("report: ", (folder.out() / "report.html").string()));
  if (const auto maps = folder.out() / kMapsFolder; std::filesystem::exists(maps))
    log_info(concat("maps: ", (maps / "index.html").string()));
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
                              const std::vector<ModelPredictions>& shuffled,
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
  RunReport all = report_of(models, run, cohort_, used, asked_, shuffled);
  for (std::size_t t = 0; t < all.targets.size(); ++t) {
    TargetReport& target = all.targets[t];
    add_search(target);
    target.confounds = confounds_of(cohort_, t, used, options_, target.bootstrap.level);
  }
  TargetReport& result = all.targets.front();
  for (const FinishedFit& fit : fits)
    if (fit.name.model == options_.model) result.curves.push_back(curve_of(fit));
  Json settings = config();
  for (const char* key : {"cache", "labels", "recipe", kVitCosts}) settings.erase(key);
  result.configuration = flat_config(readable(std::move(settings)));
  result.recipe = flat_config(readable(cohort_.cache.recipe().features));
  const std::chrono::duration<double> seconds = Clock::now() - started_;
  result.resources = {{"time", human_duration(seconds.count())},
                      {"peak memory", human_bytes(peak_resident_bytes())},
                      {"features", placement_.text},
                      {"device", device_names(devices_)}};
  for (auto& fact : to_facts(memory_use(fits, experiment()))) result.resources.push_back(fact);
  return all;
}

// oneDNN keeps what it has made for every shape of a product, up to 1024 of them, with buffers that
// no budget counts. With 8 kept, tuning the last two blocks of a ViT-S takes 460 MiB less of the
// process in bf16 and no longer, in float32 180 MiB less and 5 % longer. oneDNN reads this before
// its first product.
void bound_primitive_cache() {
  ::setenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "8", /*overwrite=*/0);
}

}  // namespace

int run_train(const std::vector<std::string>& arguments) {
  if (asks_for_list(arguments)) return list_runs(arguments);
  TrainOptions options;
  if (!parse_train_options(arguments, options)) return 0;
  check_model_options(options);
  if (options.tune.asked()) {
    keep_freed_memory();
    bound_primitive_cache();
  }
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

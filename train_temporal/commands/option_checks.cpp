#include "train_temporal/commands/option_checks.h"

#include <algorithm>
#include <string>

#include "common/cli/error.h"
#include "common/cli/log.h"
#include "common/text/text.h"
#include "train_temporal/models/registry.h"
#include "train_temporal/tasks/task_kind.h"

namespace coldframe::temporal {
namespace {

bool asks_for_intervals(const TrainOptions& options) {
  return options.time == TimeInput::kOn || options.time == TimeInput::kIntervals;
}

bool reads_in_order(const ModelConfig& model) {
  return model.architecture->ordered;
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
  log_info(config.time ? "time intervals are uneven: the model sees them (--time off to hide them)"
                       : "time intervals are unknown or even: not shown to the model (--time on "
                         "to show them)");
}

}  // namespace coldframe::temporal

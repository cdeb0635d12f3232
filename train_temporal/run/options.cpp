#include "train_temporal/run/options.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "common/cli/cli.h"
#include "common/cli/error.h"
#include "common/files/publish/publish.h"
#include "common/text/spelling.h"
#include "common/text/text.h"
#include "extract/options.h"
#include "train_temporal/fit/objective.h"
#include "train_temporal/labels/target.h"
#include "train_temporal/models/model_config.h"
#include "train_temporal/run/named_caches.h"

namespace coldframe::temporal {

namespace {

const WordTable<double> kTimeUnits{{"ms", 0.001}, {"min", 60}, {"h", 3600}, {"s", 1}};

[[noreturn]] void refuse_requirement(const std::string& word) {
  throw ConfigError(concat("--require: '", word,
                           "' is none of memory=6GiB, epoch=5s and run=2h, each at most once and "
                           "more than 0 (times in ms, s, min or h)"));
}

double seconds_of(const std::string& text, const std::string& word) {
  for (const auto& [unit, seconds] : kTimeUnits) {
    double number = 0;
    const std::string end = unit;
    if (!text.ends_with(end) || !parse_double(text.substr(0, text.size() - end.size()), number))
      continue;
    if (std::isfinite(number) && number > 0) return number * seconds;
  }
  refuse_requirement(word);
}

}  // namespace

Requirements parse_requirements(const std::string& text) {
  Requirements required;
  for (const std::string& part : split(text, ',')) {
    const std::string word = trim(part);
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos) refuse_requirement(word);
    const std::string name = word.substr(0, equals), value = word.substr(equals + 1);
    if (name == "memory" && required.memory == 0) {
      required.memory = parse_bytes(value);
      if (required.memory == 0) refuse_requirement(word);
    } else if (name == "epoch" && required.epoch_seconds == 0) {
      required.epoch_seconds = seconds_of(value, word);
    } else if (name == "run" && required.run_seconds == 0) {
      required.run_seconds = seconds_of(value, word);
    } else {
      refuse_requirement(word);
    }
  }
  return required;
}

namespace {

// NAME, NAME:number or NAME:category; other colons belong to the name.
CovariateChoice::Column column_of(const std::string& word) {
  for (const bool category : {false, true}) {
    const std::string kind = category ? ":category" : ":number";
    if (word.size() > kind.size() && word.ends_with(kind))
      return {word.substr(0, word.size() - kind.size()), category};
  }
  return {word, std::nullopt};
}

void take_columns(const std::string& words, CovariateChoice& covariates) {
  for (const std::string& word : split(words, ',')) {
    CovariateChoice::Column column = column_of(trim(word));
    if (column.name.empty())
      throw ConfigError("--covariates: expected names of columns with commas between them");
    if (std::ranges::count(covariates.columns, column.name, &CovariateChoice::Column::name) > 0)
      throw ConfigError(concat("--covariates: '", column.name, "' is named twice"));
    covariates.columns.push_back(std::move(column));
  }
}

}  // namespace

void add_covariates(OptionRows& rows, CovariateChoice& covariates) {
  rows.parsed(
      "covariates", "A,B",
      [&](auto&, const std::string& words) { take_columns(words, covariates); },
      "what a visit knows besides its images: columns of exams of the cache or of --labels; a "
      "column of numbers is one (A:category says otherwise), any other holds categories");
  rows.word("covariates-at", covariates.at_frames, {{"head", false}, {"frames", true}}, "WHERE",
            "head (the default): a linear term added at the head; frames: after the features of "
            "every frame")
      .show_none()
      .needs("covariates", "A,B");
}

void resolve_covariates(TrainOptions& options) {
  const CovariateChoice& covariates = options.covariates;
  if (covariates.asked() && options.default_compare && options.model != kCovariatesAlone)
    options.compare.emplace_back(kCovariatesAlone);
  if (!covariates.asked() && options.trains(kCovariatesAlone))
    throw ConfigError(
        "the model covariates sees these alone, and none are given; add --covariates, or leave it "
        "out");
  const auto models = options.models();
  const auto takes_none = [](const std::string& name) {
    const NamedModel* model = find_model(name);
    return model != nullptr && !model->architecture->takes_covariates;
  };
  if (covariates.asked() && std::ranges::all_of(models, takes_none))
    throw ConfigError(concat("--covariates: ", options.model,
                             " sees how exams were acquired and takes none; take another --model"));
}

void add_tune(OptionRows& rows, TrainOptions& options) {
  rows.group("Training of the ViT");
  constexpr const char *kTune = "tune", *kWeights = "WEIGHTS";
  TuneFit& fit = options.fit.tune;
  rows.text(kTune, options.tune.weights, kWeights,
            "train the end of the ViT with the model, on a cache made with `extract --cut`: its "
            "weights, as for extract --weights, or random where the cache is of random ones")
      .input();
  rows.number("tune-blocks", fit.vit.blocks, between(0, 1000),
              "train the last N blocks and what follows; 0: all after the cut")
      .needs(kTune, kWeights)
      .in("tune.blocks");
  rows.number("lora", fit.vit.lora_rank, between(0, 4096),
              "train low-rank matrices of this rank next to qkv and proj of these blocks instead; "
              "0: the blocks themselves")
      .needs(kTune, kWeights)
      .in("tune.lora_rank");
  rows.number("tune-lr", fit.learning_rate, above(0),
              "the ViT's learning rate at its highest (the model, which goes on from a fit, has a "
              "tenth of --lr); LoRA wants about ten times the default")
      .needs(kTune, kWeights)
      .in("tune.learning_rate");
  rows.number("tune-dropout", fit.dropout, below_one(),
              "after attention and MLP of the trained blocks")
      .needs(kTune, kWeights)
      .in("tune.dropout");
  rows.number(
          "tune-drop-path", fit.vit.drop_path, below_one(),
          "stochastic depth: the fraction of frames for which the ViT's last block adds nothing in "
          "a step, and less from there to its first block, as timm's drop_path_rate")
      .needs(kTune, kWeights)
      .in("tune.drop_path");
  rows.text("from", options.tune.from, "RUN",
            "go on from the models of a run on the cached features, of the same splits and "
            "options; without it they are fitted first")
      .needs(kTune, kWeights)
      .input()
      .in("tune.from");
}

void check_tune(const TrainOptions& options) {
  if (!options.tune.asked()) {
    if (!options.trains(kFrozen)) return;
    throw ConfigError(concat("--compare ", kFrozen,
                             " is the control of --tune; without it all models are frozen"));
  }
  if (options.search > 0) {
    throw ConfigError(
        "--search tries settings on cached features, and --tune trains the ViT; search without "
        "--tune first, and give what it finds");
  }
  if (!tunes(options.model)) {
    throw ConfigError(concat("--tune trains the ViT with a model that sees features, and ",
                             options.model, " sees none; take another --model, or leave it out"));
  }
}

namespace {

namespace po = boost::program_options;

// Hundredths, and two significant digits: settings are read by people.
double evenly(CounterRandom& random, double low, double high) {
  return std::round(100 * (low + (high - low) * random.uniform())) / 100;
}
double by_logarithm(CounterRandom& random, double low, double high) {
  const double value = low * std::pow(high / low, random.uniform());
  const double scale = std::pow(10, 1 - std::floor(std::log10(value)));  // a whole number: exact
  return std::round(value * scale) / scale;
}

}  // namespace

Json Draw::operator()(CounterRandom& random) const {
  if (!choices.empty()) return choices[random.below(choices.size())];
  return by_logarithm ? temporal::by_logarithm(random, low, high) : evenly(random, low, high);
}

ValueRow& OptionRows::parsed(const char* name, const char* placeholder, SetOption take,
                             const std::string& help) {
  ValueRow& row = rows_.emplace_back();
  row.name = name;
  row.value_name = placeholder;
  row.set = std::move(take);
  row.help = help;
  row.group = group_;
  return row;
}

ValueRow& OptionRows::toggle(const char* name, bool& place, const std::string& help) {
  return parsed(name, nullptr, flag(place), help).written([&place] { return Json(place); });
}

ValueRow& OptionRows::names(const char* name, std::vector<std::string>& value,
                            const std::string& help) {
  const auto take = [&value](const std::string& option, const std::string& word) {
    for (const std::string& one : split(word, ',')) {
      value.push_back(trim(one));
      if (value.back().empty())
        throw ConfigError(
            concat("--", option, ": expected names of columns with commas between them"));
    }
  };
  return parsed(name, "A,B", take, help).written([&value] { return Json(value); });
}

po::options_description OptionRows::description() {
  const auto those = [&](const std::string& caption, auto wanted) {
    po::options_description some(caption);
    for (const ValueRow& row : rows_)
      if (wanted(row)) describe_option(row, words_, some);
    return some;
  };
  std::vector<std::string> groups;
  for (const ValueRow& row : rows_)
    if (std::ranges::find(groups, row.group) == groups.end()) groups.push_back(row.group);
  if (groups.size() == 1) return those(groups.front(), [](auto&) { return true; });
  po::options_description all;
  all.add(those("Most used options", [](const ValueRow& row) { return row.used_most; }));
  for (const std::string& group : groups)
    all.add(those(group, [&](auto& row) { return row.group == group && !row.used_most; }));
  return all;
}

bool OptionRows::parse(const CommandHelp& help, const std::vector<std::string>& arguments) {
  constexpr std::size_t kLong = 60;  // of a list that --help shows in part
  CommandHelp shown = help;
  for (const ValueRow& row : rows_)
    if (row.used_most && rows_.size() > kLong) shown.most_used.push_back(row.name);
  if (!parse_command_line(shown, description(), arguments, "", &given_)) return false;
  for (const ValueRow& row : rows_) {
    const auto found = words_.find(row.name);
    if (found == words_.end()) continue;
    if (!row.words.empty()) choice(row.name, found->second, row.words);
    row.set(row.name, found->second);
  }
  return true;
}

bool OptionRows::asks(const ValueRow& row) const {
  return !row.shown.empty() && row.value ? row.value() != row.standard : given(row.name);
}

void OptionRows::require(std::string_view name) const {
  const auto row = std::ranges::find(rows_, name, &ValueRow::name);
  if (row->value() == row->standard)
    throw ConfigError(concat("--", name, " is missing; see --help"));
}

void OptionRows::check_companions() const {
  for (const ValueRow& row : rows_) {
    if (row.companion == nullptr || given(row.companion) || !asks(row)) continue;
    throw ConfigError(concat("--", row.name, " is for --", row.companion, ' ', row.companion_value,
                             "; give both, or neither"));
  }
}

void OptionRows::refuse(const std::vector<std::string>& names, const std::string& why) const {
  for (const std::string& name : names)
    if (given(name)) throw ConfigError(concat("--", name, ' ', why, "; leave it out"));
}

void OptionRows::check_files(std::vector<NamedInput> inputs, bool overwrite) const {
  std::vector<NamedOutput> outputs;
  for (const ValueRow& row : rows_) {
    if (row.is_input) inputs.push_back({concat("--", row.name), row.value().get<std::string>()});
    if (!row.output) continue;
    outputs.push_back(*row.output);
    outputs.back().path = row.value().get<std::string>();
  }
  check_outputs(outputs, inputs, overwrite_said(overwrite));
}

std::optional<std::string> OptionRows::ini(const std::vector<std::string>& but) const {
  std::string text;
  for (const ValueRow& row : rows_) {
    const bool left_out = !row.decides && std::ranges::find(but, row.group) != but.end();
    if (left_out || !given(row.name)) continue;
    const Json value = row.value ? row.value() : Json("");
    const bool typed = value.is_number() || value.is_boolean();
    const auto line = ini_line(row.name, typed ? value.dump() : word_of(words_, row.name));
    if (!line) return std::nullopt;
    text += *line;
  }
  return text;
}

std::vector<const ValueRow*> OptionRows::searched() const {
  std::vector<const ValueRow*> drawn;
  for (const ValueRow& row : rows_)
    if (row.draw) drawn.push_back(&row);
  std::ranges::sort(drawn, {}, &ValueRow::draw_place);
  return drawn;
}

void OptionRows::write(const std::string& part, Json& json) const {
  const std::string prefix = part + ".";
  for (const ValueRow& row : rows_)
    if (row.key.starts_with(prefix)) json[row.key.substr(prefix.size())] = row.value();
}

namespace {

// Ascending numbers above 0 with commas between them.
std::vector<double> ascending_numbers(const std::string& option, const std::string& words) {
  std::vector<double> numbers;
  for (const std::string& word : split(words, ',')) {
    const double before = numbers.empty() ? 0 : numbers.back();
    numbers.push_back(0);
    if (!parse_double(trim(word), numbers.back()) || !(numbers.back() > before) ||
        !(numbers.back() < 1e300))
      throw ConfigError(
          concat("--", option, ": expected ascending numbers above 0 with commas between them"));
  }
  return numbers;
}

// Names with commas between them: classes to leave out.
std::vector<ClassChange> dropped_classes(const std::string& words) {
  std::vector<ClassChange> changes;
  for (const std::string& word : split(words, ',')) changes.push_back({{trim(word)}, ""});
  return changes;
}

// a+b=name, with commas between several.
std::vector<ClassChange> merged_classes(const std::string& words) {
  std::vector<ClassChange> changes;
  std::set<std::string> seen;
  for (const std::string& word : split(words, ',')) {
    const std::size_t equals = word.rfind('=');
    ClassChange change;
    if (equals != word.npos) {
      change.to = trim(word.substr(equals + 1));
      for (const std::string& name : split(word.substr(0, equals), '+'))
        change.from.push_back(trim(name));
    }
    const auto is_unsound = [&](const std::string& name) {
      return name.empty() || !seen.insert(name).second;
    };
    if (change.from.size() < 2 || change.to.empty() || std::ranges::any_of(change.from, is_unsound))
      throw ConfigError(concat("--merge-classes '", words,
                               "': expected two classes or more with + between them and the name "
                               "of the merged one after =, each class once: mild+severe=ill"));
    changes.push_back(std::move(change));
  }
  return changes;
}

void require_different(std::vector<std::string> names, const char* option) {
  std::ranges::sort(names);
  if (std::ranges::adjacent_find(names) != names.end())
    throw ConfigError(concat("--", option, ": expected each column once"));
}

}  // namespace

void add_cache(OptionRows& rows, TargetOptions& data) {
  rows.text("cache", data.cache, "CACHE",
            "features, as `coldframe extract` made them; of several streams in a cache each: "
            "fa=PATH,icga=PATH")
      .most_used()
      .local();
  rows.word("equal-numbers", data.equal_numbers, kEqualNumbers, "ANSWER",
            "patients whose ids are equal as numbers (0123, 123, 123.0) are the same person, or "
            "different ones");
}

std::vector<NamedInput> cache_inputs(const TargetOptions& data) {
  std::vector<NamedInput> inputs;
  if (data.cache.empty()) return inputs;
  for (const NamedCache& cache : named_caches(data.cache.string()))
    inputs.push_back({"--cache", cache.path});
  return inputs;
}

void add_data(OptionRows& rows, TargetOptions& data) {
  add_cache(rows, data);
  rows.text("target", data.target, "COLUMN",
            "what to learn: a column of the cache (of exams or of frames) or of --labels; several "
            "as A,B, each with a task of its own as A:regression,B; a time to an event as "
            "TIME:EVENT")
      .most_used();
  rows.text("labels", data.labels, "FILE.csv", "labels from a CSV with columns exam and COLUMN")
      .most_used()
      .input();
  rows.word(
      "unclear-labels", data.unclear_labels, kUnclearLabels, "ANSWER",
      "labels such as None, null, -, ? and unknown: missing, as empty fields are, or classes");
  rows.toggle("exam-is-patient", data.exam_is_patient,
              "every exam is of another patient (when there is no patient column)");
}

void add_horizons(OptionRows& rows, TargetOptions& data) {
  rows.parsed(
      "horizons", "A,B",
      [&](const std::string& option, const std::string& words) {
        data.horizons = ascending_numbers(option, words);
      },
      "of TIME:EVENT: predict the probability of no event up to these times (default: the "
      "quartiles of the times of all events of the run)");
}

void add_bootstrap(OptionRows& rows, BootstrapOptions& bootstrap) {
  rows.number("bootstrap", bootstrap.resamples, between(1, 1000000),
              "resamples for the bands around curves");
}

void add_machine(OptionRows& rows, std::string& device, std::size_t& threads, bool& json) {
  ValueRow& row =
      rows.text("device", device, "NAME",
                "cpu, cuda, cuda:N, or auto: GPU or CPU, whichever a few steps show to be quicker")
          .most_used();
  if (device.empty()) row.help += " (default: cpu, with --input auto)";
  rows.number("threads", threads, between(0, 1024), "CPU threads, 0: one per core");
  rows.toggle("json", json, "print the summary as JSON");
}

void check_questions(const Questions& questions) {
  require_different(questions.subgroups, "subgroups");
  require_different(questions.characteristics, "characteristics");
}

// The options of `train`, group by group.

namespace {

constexpr const char *kRecurrent = "a GRU or LSTM", *kOrdered = "models that read frames in order";

void take_folds(const std::string& word, TrainOptions& options) {
  options.each_patient = word == "patients";
  options.each_group = word == "groups";
  if (options.each_patient || options.each_group) return;
  std::int64_t folds = 0;
  if (!parse_int(word, folds))
    throw ConfigError("--folds: expected a whole number, or patients or groups");
  options.folds = parse_number<std::size_t>("folds", word, between(0, 1000));
}

std::vector<std::string> single_frame_words() {
  std::vector<std::string> words = words_in(single_frames());
  words.push_back(kBestFrame);
  return words;
}

void add_target(OptionRows& rows, TrainOptions& options) {
  TargetOptions& data = options.data;
  rows.group("Target");
  add_data(rows, data);
  rows.text("streams", data.arrangement.stream_column, "COLUMN",
            "frames of several streams (FA and ICGA, T1 and T2) become one input per instant; "
            "COLUMN, of frames, names each one's stream");
  rows.text("visits", data.arrangement.visits, "COLUMN",
            "read every exam with all earlier ones of its patient before it; COLUMN has the "
            "visits' times as dates or in days (start_time: those of the exams themselves)");
  rows.text("task", data.task, "TASK", join(task_words(), ", ")).only(task_words());
  rows.text("positive", data.positive, "VALUE",
            "binary: which value is the positive class; of TIME:EVENT: which says that the event "
            "came");
  rows.parsed(
      "drop-class", "NAME",
      [&](const std::string&, const std::string& words) { data.dropped = dropped_classes(words); },
      "leave the exams of this class out (several: A,B)");
  rows.parsed(
      "merge-classes", "A+B=NAME",
      [&](const std::string&, const std::string& words) { data.merged = merged_classes(words); },
      "learn these classes as one (several: A+B=NAME,C+D=OTHER)");
  add_horizons(rows, data);
}

void add_run(OptionRows& rows, TrainOptions& options) {
  rows.group("Run");
  rows.text("out", options.out, "RUN", "the run folder to make")
      .most_used()
      .written_to(has_own_validator);
  rows.toggle("resume", options.existing.resume, "continue an interrupted run").most_used();
  rows.toggle("overwrite", options.existing.overwrite, "replace a run of the same name");
  rows.text("part", options.part, "I/N",
            "do part I of N of the run's fits, I from 0; auto: as SLURM's array, srun or torchrun "
            "say; the same command with --resume instead writes the report in the end");
  rows.toggle("benchmark", options.benchmark,
              "train for a few seconds and print what a run will take; nothing is written");
  rows.parsed(
      "list", "RUNS", [](auto&, auto&) {}, "list runs with their figures; see --list --help");
}

void add_splits(OptionRows& rows, TrainOptions& options) {
  rows.group("Splits");
  rows.parsed(
          "folds", "N", [&](auto&, const std::string& word) { take_folds(word, options); },
          "folds by patient; 1: one hold-out; patients: each patient held out once; groups: each "
          "value of --group; 0: the cache's split column if there is one, else 5")
      .show("0")
      .most_used();
  rows.text("group", options.group, "COLUMN",
            "exams with one value of this column of the cache or of --labels stay on one side of "
            "a split, beside those of a patient");
  rows.toggle("split-column", options.split_column,
              "use the cache's split column (train, val, test)");
  rows.text("splits", options.splits, "FILE.csv", "use the splits.csv of an earlier run").input();
  rows.number("repeats", options.repeats, between(1, 1000),
              "repeat the folds with other divisions");
  rows.number("seeds", options.seeds, between(1, 1000),
              "fits per fold, whose predictions are averaged")
      .most_used();
  rows.number("seed", options.seed, at_least(0), "of all random numbers");
}

void add_models(OptionRows& rows, TrainOptions& options) {
  add_kind(rows, options);
  rows.parsed(
          "compare", "LIST",
          [&](auto&, const std::string& words) {
            options.default_compare = words == kAllControls;
            options.compare = split(words, ',');
          },
          "also fit these on the same folds (--compare alone, or all: those of gru, mean, single, "
          "summary, shuffled, blank and clock that apply to the target, with --covariates "
          "covariates, and with --tune frozen; without it, auto has gru and summary beside it)")
      .alone(kAllControls)
      .most_used();
  rows.text("single-frame", options.single_frame, "WHICH",
            "what the model `single` sees: the first, middle or last frame, or the best of these "
            "by the validation part of each fold")
      .only(single_frame_words());
  rows.number("layers", options.layers, between(0, 16),
              "number of layers; 0: 1 of a GRU or LSTM, 2 of a transformer, 3 blocks of a TCN")
      .for_models(&Architecture::ordered, kOrdered);
  rows.word("time", options.time,
            {{"auto", TimeInput::kAuto},
             {"on", TimeInput::kOn},
             {"intervals", TimeInput::kIntervals},
             {"off", TimeInput::kOff}},
            "WHEN",
            "give the GRU, or a model in its place, time intervals and, where exams share a zero, "
            "the time since it: on, intervals (these alone), off, or auto (when intervals are "
            "known and uneven, or exams start more than 1 s apart after the zero)");
  add_model(rows, options.architecture);
  add_covariates(rows, options.covariates);
}

void add_training(OptionRows& rows, TrainOptions& options) {
  add_fit(rows, options.fit);
  rows.word("views", options.views,
            {{"auto", ViewChoice::kAuto}, {"clean", ViewChoice::kClean}, {"all", ViewChoice::kAll}},
            "WHICH",
            "train on the cache's augmented views, another one per exam and epoch: clean (none of "
            "them), all, or auto (all that there are)");
  std::vector<std::string> searched;
  for (const ValueRow* row : rows.searched()) searched.push_back(row->name);
  rows.number("search", options.search, or_zero(between(2, 1000)),
              concat("try N settings of ", join(searched, ", "),
                     " on every fold and take the best on its inner validation part; the first is "
                     "the one given, and of the options what is given stays; 0: none"));
  add_bootstrap(rows, options.bootstrap);
}

void add_resources(OptionRows& rows, TrainOptions& options) {
  rows.group("Machine");
  add_machine(rows, options.device, options.threads, options.json);
  rows.number(
      "jobs", options.jobs, at_least(0),
      "fits side by side, which share threads and budget; 0: one per thread, up to 8 on each "
      "GPU (--device cuda takes all), or one under a budget");
  rows.word("features", options.features,
            {{"auto", FeaturePlacement::kAuto},
             {"device", FeaturePlacement::kDevice},
             {"memory", FeaturePlacement::kMemory},
             {"stream", FeaturePlacement::kStream}},
            "WHERE",
            "device, memory or stream (from the cache, as they are wanted); auto: the first where "
            "they fit");
  rows.parsed("memory-budget", "SIZE", parsed(options.memory_budget, parse_bytes),
              "the most that tensors of features and computation may take on the device, e.g. "
              "500MiB (default: all); batches are cut to fit. LibTorch and what it keeps come on "
              "top")
      .deciding();
  rows.parsed(
      "require", "LIMITS", parsed(options.required, parse_requirements),
      "end with exit code 1, before anything is trained, where a run takes more than memory=6GiB "
      "(of tensors, predicted), epoch=5s (measured for a few seconds) or run=2h (about, with all "
      "epochs); several "
      "with commas between them");
}

}  // namespace

void add_kind(OptionRows& rows, ModelChoice& choice) {
  rows.group("Model");
  const auto in_order =
      model_names([](const NamedModel& one) { return one.learns_order() && !one.chooses; });
  rows.text("model", choice.model, "NAME",
            concat("auto (in each fit gru, or a summary of the frames unless gru does clearly "
                   "better on the validation part), ",
                   join(model_names([](const NamedModel& one) { return !one.chooses; }), ", ")))
      .only(model_names())
      .most_used()
      .searched(6, {.choices = {in_order.begin(), in_order.end()}});
  rows.text("inputs", choice.inputs, "KIND",
            "what a model sees of a frame: level (its features), change (their differences from "
            "the first frame and from the frame before), or both")
      .only(words_in(kInputs))
      // Differences lose what lies in the level, so that half of the settings do without.
      .searched(7, {.choices = {"level", "level", "change", "both"}});
}

void add_model(OptionRows& rows, ModelConfig& model) {
  rows.group("Model");
  rows.number("hidden", model.hidden, between(1, 8192),
              "width of the projection and of the layers over frames, or of the MLP in their place")
      .searched(0, {.choices = {32, 64, 128}});
  rows.toggle("bidirectional", model.bidirectional, "read sequences both ways (GRU, LSTM)")
      .for_models(&Architecture::recurrent, kRecurrent);
  rows.word("temporal-pool", model.pool, kTemporalPools, "KIND",
            "last, mean or attention (the default) over what the GRU, or a model in its place, "
            "makes of each frame")
      .only({"last", "mean", "attention"})  // `none` follows from a target of frames
      .show_none()
      .for_models(&Architecture::ordered, kOrdered)
      .searched(1, {.choices = {"mean", "attention", "last"}});
  rows.word("time-encoding", model.time_encoding, kTimeEncodings, "KIND",
            "log: of the interval; decay: the GRU's state also fades between frames, as in GRU-D; "
            "time2vec: also learnt sinusoids of the time")
      .for_models(&Architecture::ordered, kOrdered);
  rows.word("fusion", model.gated, {{"concat", false}, {"gated", true}}, "KIND",
            "of streams: concat (side by side) or gated (weighted against each other at each "
            "instant)");
  rows.number("dropout", model.dropout, below_one(), "of projected features and before the head")
      .searched(2, {.low = 0, .high = 0.6});
}

void add_fit(OptionRows& rows, FitOptions& fit) {
  rows.group("Training");
  rows.number("epochs", fit.epochs, between(1, 1000000), "at most").in("fit.epochs");
  rows.number("batch", fit.batch, at_least(1), "exams per step").in("fit.batch");
  rows.number("micro-batch", fit.micro_batch, at_least(0),
              "exams at a time within a step at most, 0: all")
      .in("fit.micro_batch");
  rows.number("lr", fit.learning_rate, above(0), "learning rate at its highest")
      .in("fit.learning_rate")
      .searched(4, {.low = 5e-4, .high = 5e-3, .by_logarithm = true});
  rows.number("warmup", fit.warmup, between(0, 1),
              "fraction of all steps in which the learning rate rises to its highest")
      .in("fit.warmup");
  rows.word("schedule", fit.schedule, kSchedules, "KIND",
            "cosine or constant, after a linear warm-up")
      .in("fit.schedule");
  rows.number("weight-decay", fit.weight_decay, at_least(0), "AdamW's, of matrices")
      .in("fit.weight_decay")
      .searched(5, {.low = 1e-3, .high = 0.1, .by_logarithm = true});
  rows.number("clip", fit.clip, at_least(0), "largest norm of the gradient, 0: any").in("fit.clip");
  rows.number("train-frames", fit.train_frames, at_least(0),
              "frames drawn per exam and epoch, 0: all")
      .in("fit.train_frames");
  rows.number("patience", fit.patience, at_least(0),
              "epochs without a better validation part after which to stop, 0: never")
      .in("fit.patience");
  rows.word("early-stopping-metric", fit.stopping_metric, kStoppingMetrics, "KIND",
            "what is better, also for the weights that are kept: a lower loss, or a higher metric "
            "(AUROC, ordinal: quadratic kappa, regression: R², TIME:EVENT: Harrell's C)")
      .in("fit.early_stopping_metric");
  rows.number("noise", fit.noise, between(0, 100),
              "add Gaussian noise of this standard deviation to the standardised features of every "
              "frame")
      .in("fit.noise")
      .searched(3, {.low = 0, .high = 1});
  rows.number("mixup", fit.mixup, or_zero(between(kMinMixup, kMaxMixup)),
              "mix every exam with another one of its batch, weighted by Beta(N, N); 0: none")
      .in("fit.mixup");
  rows.number("label-smoothing", fit.objective.label_smoothing, below_one(),
              "classes: label smoothing, the fraction of a label that is spread over all classes")
      .in("fit.label_smoothing");
  rows.toggle("class-weights", fit.objective.class_weights, "every class counts the same")
      .in("fit.class_weights");
  rows.parsed(
          "loss", "KIND", parsed(fit.objective.loss, parse_loss),
          "focal or focal=GAMMA for classes, mse, huber or huber=DELTA (standard deviations) for "
          "numbers; auto: cross-entropy, squared error")
      .show("auto")
      .written([&] { return Json(to_string(fit.objective.loss)); })
      .in("fit.loss");
  rows.word("sampler", fit.balanced, {{"order", false}, {"balanced", true}}, "KIND",
            "order: every exam once per epoch; balanced: as many exams of every class")
      .in("fit.sampler");
  rows.word("amp", fit.precision,
            {{"off", torch::kFloat32}, {"bf16", torch::kBFloat16}, {"fp16", torch::kFloat16}},
            "KIND",
            "mixed precision: matrix products in bf16, or in fp16 with scaled gradients; off")
      .alone("bf16")
      .written([&] { return Json(torch::toString(fit.precision)); })
      .in("fit.precision");
}

void add_train(OptionRows& rows, TrainOptions& options) {
  add_target(rows, options);
  add_run(rows, options);
  add_splits(rows, options);
  add_models(rows, options);
  add_training(rows, options);
  add_tune(rows, options);
  rows.group("Report");
  add_questions(rows, options.questions);
  rows.toggle("maps", options.maps,
              "show in the report's example exams what each patch of a frame adds, as predict "
              "--maps does; of a cache with --cut");
  rows.text("weights", options.weights, "PATH",
            "for --maps without --tune: the ViT's, as extract --weights took them")
      .input();
  rows.text("against", options.against, "RUN",
            "compare with this finished run, paired, on the exams that both hold out: "
            "against.html, and `against` in summary.json")
      .input();
  add_resources(rows, options);
}

// The options of `evaluate` and `predict`.

namespace {

const CommandHelp kEvaluateHelp{
    "coldframe evaluate (--run RUN | --bundle BUNDLE) (--cache CACHE | --input EXAMS) [options]\n"
    "       coldframe evaluate --run RUN --against RUN [options]",
    "Applies the models of a run or a bundle, averaged, to another labelled cohort: a cache of the "
    "same recipe or, by a bundle, exams as they come. Or compares two runs.",
    "coldframe evaluate --run runs/label --cache hospital2.cache --out runs/label-hospital2"};
const CommandHelp kPredictHelp{
    "coldframe predict (--run RUN | --bundle BUNDLE) (--cache CACHE | --input EXAMS) "
    "--out predictions.csv [options]",
    "Applies the models of a run or a bundle, averaged, to exams without labels: those of a cache "
    "of "
    "its recipe or, by a bundle, exams as they come.",
    "coldframe predict --bundle model.bundle --input exams --out predictions.csv"};

// Options of `extract` that exams as they come may need; the recipe decides the others.
constexpr const char* kRawOptions[] = {"columns",        "frame-columns",   "exam-from",
                                       "sort",           "allow-unordered", "keep-patient-id",
                                       "patient-salt",   "min-frames",      "precision",
                                       "decode-threads", "memory-budget"};

void add_study(OptionRows& rows, ApplyOptions& options) {
  rows.text("run", options.run, "RUN", "a folder that `coldframe train` made").input();
  rows.text("bundle", options.bundle, "BUNDLE", "or a bundle of `coldframe bundle make`").input();
  rows.toggle("other-patients", options.other_patients,
              "none of these people took part in the training, even where ids are the same");
  rows.toggle("without-times", options.without_times,
              "go on where no time of a frame is known, though the models were shown times");
}

void add_raw(OptionRows& rows, ApplyOptions& options) {
  extract::ExtractOptions& extraction = options.extraction;
  rows.text("input", extraction.input, "PATH",
            "with --bundle: exams as they come, a folder, file or CSV manifest as `coldframe "
            "extract` takes them")
      .input();
  for (const auto& group :
       {extract::input_options(extraction), extract::storage_options(extraction),
        extract::machine_options(extraction)})
    for (const OptionRow& row : group)
      if (std::ranges::find(kRawOptions, std::string_view(row.name)) != std::end(kRawOptions))
        rows.parsed(row.name, row.value_name, row.set, row.help);
}

void resolve(const OptionRows& rows, ApplyOptions& options) {
  const bool cache = !options.data.cache.empty();
  if (options.run.empty() == options.bundle.empty())
    throw ConfigError(options.run.empty() ? "--run or --bundle is missing; see --help"
                                          : "--run and --bundle: give one of them");
  const bool raw = !options.extraction.input.empty();
  const bool held_out = !cache && !raw && !options.against.empty() && options.bundle.empty();
  if (cache == raw && !held_out)
    throw ConfigError(raw ? "--cache and --input: give one of them"
                          : "--cache or --input is missing; see --help");
  if (raw && options.bundle.empty())
    throw ConfigError(
        "--input needs --bundle, which holds the backbone; `coldframe bundle make` makes one of a "
        "run, or extract these exams and give --cache");
  if (!raw) rows.refuse({std::begin(kRawOptions), std::end(kRawOptions)}, "is for --input");
  if (options.device.empty()) options.device = raw ? "auto" : "cpu";
  options.extraction.devices = {options.device};
  options.extraction.threads = static_cast<int>(options.threads);
  options.extraction.reader.equal_numbers = options.data.equal_numbers;
  if (!options.maps.empty()) options.extraction.cut = 0;  // the ViT sees the frames again
  check_questions(options.questions);
}

}  // namespace

bool parse_evaluate_options(const std::vector<std::string>& arguments, ApplyOptions& options) {
  OptionRows rows;
  add_study(rows, options);
  add_data(rows, options.data);
  add_horizons(rows, options.data);
  rows.text("positive", options.data.positive, "VALUE",
            "of TIME:EVENT: which value says that the event came, where it is not the run's own "
            "word");
  add_raw(rows, options);
  rows.text("against", options.against, "RUN",
            "compare with this run, paired: on the exams of --cache, or without one on those that "
            "both runs have held out")
      .input();
  rows.text("out", options.out, "FOLDER", "write metrics, predictions and report.html here")
      .written_to(has_own_validator);
  rows.toggle("overwrite", options.overwrite, "replace files of an earlier evaluation");
  add_questions(rows, options.questions);
  add_bootstrap(rows, options.bootstrap);
  rows.number("seed", options.bootstrap.seed, at_least(0), "of the resamples");
  add_machine(rows, options.device, options.threads, options.json);
  if (!rows.parse(kEvaluateHelp, arguments)) return false;
  resolve(rows, options);
  if (options.questions.figures && options.out.empty())
    throw ConfigError("--figures writes into the folder of --out; give that, too");
  if (options.data.cache.empty() && options.extraction.input.empty())
    rows.refuse({"subgroups", "characteristics", "aggregate", "threshold", "labels", "target",
                 "positive", "device", "exam-is-patient", "other-patients", "without-times",
                 "unclear-labels", "equal-numbers"},
                "needs --cache: the exams that runs have held out are taken as they are in their "
                "predictions.csv");
  rows.check_files(cache_inputs(options.data), options.overwrite);
  return true;
}

bool parse_predict_options(const std::vector<std::string>& arguments, ApplyOptions& options) {
  OptionRows rows;
  add_study(rows, options);
  add_cache(rows, options.data);
  rows.text("labels", options.data.labels, "FILE.csv",
            "covariates that the models take, from a CSV with columns exam and theirs")
      .input();
  add_horizons(rows, options.data);
  add_raw(rows, options);
  rows.text("out", options.out, "FILE.csv", "the predictions to write").written_to();
  rows.number("sets", options.sets, share(),
              "also give each exam the classes, or an interval of numbers, that hold the truth in "
              "this share of patients, as 0.9");
  rows.text("explain", options.explain, "FILE.csv",
            "also write what each frame adds to the probability, number or expected class "
            "(integrated gradients over time)")
      .written_to();
  rows.text("maps", options.maps, "FOLDER",
            "also write where: what each patch of each frame adds to that, through the ViT, as a "
            "picture per frame and a table per exam; with --input, or a cache with --cut")
      .written_to_folder();
  rows.text("weights", options.weights, "PATH",
            "for --maps of a run: the ViT's, as extract --weights took them")
      .input();
  rows.toggle("overwrite", options.overwrite, "replace the files");
  add_machine(rows, options.device, options.threads, options.json);
  if (!rows.parse(kPredictHelp, arguments)) return false;
  resolve(rows, options);
  rows.require("out");
  if (options.maps.empty()) rows.refuse({"weights"}, "is for --maps");
  if (!options.bundle.empty()) rows.refuse({"weights"}, "is for --run: a bundle has its own");
  options.maps = without_trailing_slash(options.maps);
  rows.check_files(cache_inputs(options.data), options.overwrite);
  return true;
}

// What the options of `train` make of each other, and which exclude each other.

namespace {

const CommandHelp kTrainHelp{
    "coldframe train --cache CACHE --target COLUMN --out RUN [options]",
    "Trains a GRU, or what --model says, on cached features, patient by patient held out, and "
    "writes a run folder: metrics with intervals, predictions, weights and report.html.",
    "coldframe train --cache exams.cache --target label --folds 5 --seeds 3 --compare "
    "--out runs/label"};

// Caches with names are streams.
void resolve_caches(TargetOptions& data) {
  const auto caches = named_caches(data.cache.string());
  if (caches.size() == 1) return;
  Arrangement& arrangement = data.arrangement;
  if (!arrangement.stream_column.empty())
    throw ConfigError(
        "--streams names the streams of one cache, and --cache NAME=PATH,… a cache of each; give "
        "one of them");
  arrangement.stream_column = kStreamColumn;
  std::vector<std::string> words;  // in one order, whatever that of the command line
  for (const NamedCache& cache : caches) {
    arrangement.stream_names.push_back(cache.name);
    words.push_back(concat(cache.name, "=", cache.path.string()));
  }
  data.cache = join(words, ",");
}

void resolve_compare(TrainOptions& options) {
  std::vector<std::string> names = std::move(options.compare);
  options.compare.clear();
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

// Processes that a launcher starts together would else train the same run, each for itself.
void check_part(TrainOptions& options) {
  ExistingRun& existing = options.existing;
  if (!options.part.empty())
    existing.part = choose_part(options.part == "auto" ? "" : options.part, from_environment);
  if (options.step.several() && !existing.part.shared())
    throw ConfigError(concat(options.step.count, " processes are started together (",
                             options.step.source,
                             "); with --part auto each does a part of the run's fits, otherwise "
                             "start one"));
  if (!existing.part.shared()) return;
  if (existing.overwrite || existing.resume)
    throw ConfigError(concat("--part begins a run or continues what is there of it; leave ",
                             existing.overwrite
                                 ? "--overwrite out, and remove a run of that name yourself"
                                 : "--resume out: it is for one process, after all parts"));
  if (options.benchmark) throw ConfigError("--benchmark measures the whole run; leave --part out");
}

void check_splits(const TrainOptions& options) {
  const bool each = options.each_patient || options.each_group;
  const bool given_split = options.split_column || !options.splits.empty();
  const int ways = (options.folds > 0) + each + options.split_column + !options.splits.empty();
  if (ways > 1)
    throw ConfigError("--folds, --split-column and --splits exclude each other; give one");
  if (options.repeats > 1 && each) {
    throw ConfigError(concat("--folds ", options.each_group ? "groups" : "patients",
                             " can be divided in one way only; leave --repeats out"));
  }
  if (options.each_group && options.group.empty())
    throw ConfigError("--folds groups needs --group COLUMN, each value of which is held out once");
  if (!options.group.empty() && options.each_patient)
    throw ConfigError("--folds patients divides by patient; with --group give --folds groups or N");
  if (given_split && !options.group.empty())
    throw ConfigError("--group divides anew; it needs --folds, not a given split");
  if (given_split && options.repeats > 1)
    throw ConfigError("--repeats divides anew; it needs --folds, not a given split");
}

// Options of some models are refused where none of these is trained.
void check_readers(const OptionRows& rows, const TrainOptions& options) {
  const auto models = trained_models(options);
  for (const ValueRow& row : rows.rows()) {
    const auto reads = [&](const ModelConfig& one) { return one.architecture->*row.reader; };
    if (row.reader == nullptr || !rows.asks(row) || std::ranges::any_of(models, reads)) continue;
    throw ConfigError(concat("--", row.name, " is for ", row.readers, ", and ",
                             join(options.models(), ", "),
                             " has none; leave the option out, or take another --model"));
  }
}

void resolve(const OptionRows& rows, TrainOptions& options) {
  if (rows.given("list"))
    throw ConfigError("list: --list belongs on the command line, not into the file of --config");
  options.step = job_step(from_environment);
  rows.require("cache");
  rows.require("target");
  if (!options.benchmark) rows.require("out");
  if (options.benchmark && options.required.asked())
    throw ConfigError("--benchmark prints what a run takes, and --require is of the run; give one");
  options.given = rows.given();
  options.bootstrap.seed = options.seed;
  resolve_caches(options.data);
  resolve_compare(options);
  resolve_covariates(options);
  rows.check_companions();
  if (!options.maps) rows.refuse({"weights"}, "is for --maps");
  if (options.tune.asked()) rows.refuse({"weights"}, "is for --maps of a ViT that is not tuned");
  check_part(options);
  check_questions(options.questions);
  check_splits(options);
  check_tune(options);
  check_readers(rows, options);
  rows.check_files(cache_inputs(options.data), options.existing.overwrite);
  options.repeated = rows.ini({"Run", "Machine"});
}

}  // namespace

std::vector<std::string> TrainOptions::models() const {
  std::vector<std::string> names = {model};
  names.insert(names.end(), compare.begin(), compare.end());
  return names;
}

bool TrainOptions::trains(const std::string& wanted) const {
  return model == wanted || std::ranges::find(compare, wanted) != compare.end();
}

std::vector<ModelConfig> trained_models(const TrainOptions& options) {
  std::vector<ModelConfig> configs;
  for (const std::string& name : options.models()) {
    const bool of_main = is_twin(name) || name == kFrozen;
    ModelConfig& config = configs.emplace_back(options.architecture);
    set_model(config, of_main ? options.model : name);
    if (is_twin(name) && !name.starts_with(kOnlyPrefix)) set_model(config, name);
  }
  return configs;
}

bool tunes(const std::string& model) {
  const NamedModel* named = find_model(model);
  if (named == nullptr) return !model.starts_with(kFrozen);  // one stream alone
  return named->architecture->sees_frames && !named->blank && named->architecture->by_steps;
}

bool parse_train_options(const std::vector<std::string>& arguments, TrainOptions& options) {
  OptionRows rows;
  add_train(rows, options);
  if (!rows.parse(kTrainHelp, arguments)) return false;
  resolve(rows, options);
  return true;
}

std::string portable_options(const std::string& repeated) {
  OptionRows rows;
  TrainOptions options;
  add_train(rows, options);
  std::string kept;
  std::vector<std::string> left_out;
  for (const std::string& line : split(repeated, '\n')) {
    const std::string name = trim(line.substr(0, line.find('=')));
    const auto row = std::ranges::find(rows.rows(), name, &ValueRow::name);
    if (row == rows.rows().end()) continue;
    if (row->set.is_local)
      left_out.push_back(concat("--", name));
    else
      kept += line + "\n";
  }
  return concat("# The training's options, without its files: coldframe train --config train.ini ",
                "--out RUN, with ", join(left_out, ", "), "\n", kept);
}

Json options_json(TrainOptions options, const std::string& part) {
  OptionRows rows;
  add_train(rows, options);
  Json json;
  rows.write(part, json);
  return json;
}

}  // namespace coldframe::temporal

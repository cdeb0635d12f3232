// The options of train, evaluate and predict: members, rows and checks.
#pragma once

#include <boost/program_options.hpp>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/cli/cli.h"
#include "common/cli/option_rows.h"
#include "common/files/json.h"
#include "common/files/publish/outputs.h"
#include "common/system/job.h"
#include "common/text/spelling.h"
#include "common/text/text.h"
#include "common/threads/counter_random.h"
#include "extract/options.h"
#include "train_temporal/evaluate/intervals.h"
#include "train_temporal/fit/trainer.h"
#include "train_temporal/labels/labels.h"
#include "train_temporal/models/model_config.h"
#include "train_temporal/report/report.h"
#include "train_temporal/run/run_folder.h"

namespace coldframe::temporal {

// `coldframe train --require`: limits of a run, checked before it begins.

struct Requirements {
  std::uint64_t memory = 0;                   // max bytes of tensors on the device; 0: no limit
  double epoch_seconds = 0, run_seconds = 0;  // likewise

  bool asked() const { return memory > 0 || times(); }
  bool times() const { return epoch_seconds > 0 || run_seconds > 0; }
};

// "memory=6GiB,epoch=5s,run=2h", each at most once; times in ms, s, min or h. ConfigError.
Requirements parse_requirements(const std::string& text);

// `coldframe train --covariates`: the covariates of a visit, and where they enter a model.

class OptionRows;
struct TrainOptions;

struct CovariateChoice {
  struct Column {
    std::string name;
    std::optional<bool> category;  // none: by its values
  };
  std::vector<Column> columns;
  bool at_frames = false;  // appended to every frame's features; else next to the head

  bool asked() const { return !columns.empty(); }
};

void add_covariates(OptionRows& rows, CovariateChoice& covariates);
// Adds the control `covariates` to the default comparison. ConfigError if that model is requested
// without covariates, or if no model takes the given ones.
void resolve_covariates(TrainOptions& options);

// `coldframe train --tune`: how to train the last blocks of the ViT with the model.

class OptionRows;
struct TrainOptions;

// Stands for random weights, which have no file: the cache's recipe states their seed.
inline constexpr const char* kRandomWeights = "random";
// The control of a tuned model: the same model on the cached features.
inline constexpr const char* kFrozen = "frozen";

struct TuneChoice {
  std::string weights;         // as `extract --weights`, or kRandomWeights; "": nothing is tuned
  std::filesystem::path from;  // a run whose models to start from; empty: fit them first

  bool asked() const { return !weights.empty(); }
};

void add_tune(OptionRows& rows, TrainOptions& options);
// ConfigError for options that are incompatible with it.
void check_tune(const TrainOptions& options);

// All options of `coldframe train`, `evaluate` and `predict`, with their defaults.

struct TargetOptions {
  std::filesystem::path cache;
  std::string target;            // columns of the cache, or of --labels; see labels/labels.h
  std::string task = "auto";     // of the targets that name none
  std::filesystem::path labels;  // CSV with columns exam and the target; empty: the cache's column
  std::string positive;          // binary: the value that counts as class 1
  bool exam_is_patient = false;
  UnclearLabels unclear_labels = UnclearLabels::kAsk;
  std::vector<ClassChange> dropped, merged;         // classes left out, and taken together
  EqualNumbers equal_numbers = EqualNumbers::kAsk;  // of patients
  Arrangement arrangement;
  std::vector<double> horizons;  // of a time to an event, ascending; empty: see --help
};

inline constexpr const char* kBestFrame = "best";

enum class TimeInput { kAuto, kOn, kIntervals, kOff };

// --search draws some of these.
struct ModelChoice {
  std::string model = kAutoModel;
  std::string inputs = "level";  // a word of kInputs
  ModelConfig architecture;      // as set by options; the cache determines the rest
  FitOptions fit;
  std::vector<std::string> compare;  // models to compare with
};

struct TrainOptions : ModelChoice {
  TargetOptions data;
  std::filesystem::path out;
  ExistingRun existing;

  std::size_t folds = 0;         // 0: the cache's `split` column if it has one, else 5; 1: hold-out
  bool each_patient = false;     // as many folds as patients
  bool each_group = false;       // or one fold per group
  std::string group;             // the column whose values stay together; empty: patients alone
  bool split_column = false;     // insist on the `split` column
  std::filesystem::path splits;  // a splits.csv to follow
  std::size_t repeats = 1;
  std::size_t seeds = 1;
  std::uint64_t seed = 0;

  bool default_compare = false;  // --compare without a list: skip what does not apply to the target
  std::string single_frame = "middle";  // of the model `single`; best: by each fold's validation
  std::int64_t layers = 0;              // 0: each model's own
  TimeInput time = TimeInput::kAuto;
  ViewChoice views = ViewChoice::kAuto;  // views of the cache for training

  CovariateChoice covariates;
  TuneChoice tune;

  std::size_t search = 0;  // number of settings that every fold tries; 0: no search
  GivenOptions given;      // by name; given options are not searched

  Questions questions;
  bool maps = false;              // of patches, in the report's example exams
  std::filesystem::path weights;  // of the ViT that made the cache, for `maps`
  std::filesystem::path against;  // a finished run to compare with; empty: none
  BootstrapOptions bootstrap;
  std::string device = "cpu";
  std::size_t threads = 0;  // 0: one per core
  std::size_t jobs = 0;     // parallel fits; 0: see --help
  FeaturePlacement features = FeaturePlacement::kAuto;
  std::uint64_t memory_budget = 0;  // max bytes of tensors on the device; 0: unlimited
  bool benchmark = false;  // train for a few seconds, then print the expected cost of a run
  Requirements required;   // a run that would violate them does not begin
  bool json = false;
  std::string part;                     // see ExistingRun::part; empty: the whole
  JobStep step;                         // from the environment
  std::optional<std::string> repeated;  // the options to repeat this run, for --config

  std::vector<std::string> models() const;  // the main model first, then those compared
  bool trains(const std::string& model) const;
  std::int64_t layers_of(const Architecture& one) const { return layers > 0 ? layers : one.layers; }
};
// True for the models with which --tune trains the ViT: those that take features, except kFrozen.
bool tunes(const std::string& model);
// The configurations of all models, twins derived from the main one.
std::vector<ModelConfig> trained_models(const TrainOptions& options);

// False when only help was asked for. ConfigError.
bool parse_train_options(const std::vector<std::string>& arguments, TrainOptions& options);
// The lines of a run's options.ini without options that name files; a comment at the top lists the
// omitted options.
std::string portable_options(const std::string& repeated);
// A section of config.json, "fit" or "tune": the options whose rows have a key in it.
Json options_json(TrainOptions options, const std::string& part);

struct ApplyOptions {
  TargetOptions data;
  std::filesystem::path run, bundle;  // one of them
  std::filesystem::path against;      // evaluate: a run to compare with
  // Extraction of raw exams, for a bundle, whose recipe determines the rest; without input: the
  // exams of data.cache.
  extract::ExtractOptions extraction;
  std::filesystem::path out;
  std::filesystem::path explain;  // predict: a CSV of contributions by frame; empty: none
  std::filesystem::path maps;     // predict: a folder of maps of patches; empty: none
  std::optional<double> sets;     // predict: how often sets hold the truth; none: no sets
  std::filesystem::path weights;  // of the ViT that made a run's cache, for `maps`
  bool other_patients = false;    // not those of the training, even if ids coincide
  bool without_times = false;     // accept exams without times for models that use times
  bool overwrite = false;
  Questions questions;
  BootstrapOptions bootstrap;
  std::string device;  // "": cpu, with `input` auto
  std::size_t threads = 0;
  bool json = false;
};
bool parse_evaluate_options(const std::vector<std::string>& arguments, ApplyOptions& options);
bool parse_predict_options(const std::vector<std::string>& arguments, ApplyOptions& options);

// The option rows of `train` and related commands: an OptionRow with access to its value, for
// config.json, for --search and for checks of combinations. A new option needs a row and a member.

// The search space of an option for --search: a list of values, or a range of numbers.
struct Draw {
  std::vector<Json> choices = {};
  double low = 0, high = 0;
  bool by_logarithm = false;

  Json operator()(CounterRandom& random) const;
};

// `key`: its path in config.json, "fit.learning_rate"; "": none.
struct ValueRow : OptionRow {
  std::string group;
  std::function<Json()> value;
  Json standard;                   // its value before parsing
  std::vector<std::string> words;  // allowed words; empty: any
  bool used_most = false, is_input = false;
  bool decides = false;  // it stays in options.ini where the rest of its group is left out
  std::optional<Draw> draw;
  std::size_t draw_place = 0;                                   // in the order of draws
  bool Architecture::*reader = nullptr;                         // the models to which it applies
  const char* readers = nullptr;                                // their name in a message
  const char *companion = nullptr, *companion_value = nullptr;  // the option that it requires
  std::optional<NamedOutput> output;                            // set if it names an output

  ValueRow& in(const std::string& path) { return key = path, *this; }
  ValueRow& most_used() { return used_most = true, *this; }
  // It decides what comes out, to the last bits.
  ValueRow& deciding() { return decides = true, *this; }
  ValueRow& local() { return set.is_local = true, *this; }
  // It names an input file. Such an option is local.
  ValueRow& input() { return is_input = true, local(); }
  // It names an output; `may_stand` as in NamedOutput.
  ValueRow& written_to(bool (*may_stand)(const std::filesystem::path&) = nullptr) {
    return output = {concat("--", name), {}, may_stand}, *this;
  }
  ValueRow& written_to_folder() { return written_to(), output->is_folder = true, *this; }
  ValueRow& show(const std::string& text) { return shown = text, *this; }
  ValueRow& show_none() { return show(""); }
  ValueRow& alone(const std::string& word) { return word_alone = word, *this; }
  ValueRow& written(std::function<Json()> as) {
    value = std::move(as);
    standard = value();
    return *this;
  }
  ValueRow& only(std::vector<std::string> allowed) { return words = std::move(allowed), *this; }
  // --search draws it. Its position among the draws must not change, so that a seed gives the same
  // settings.
  ValueRow& searched(std::size_t place, Draw from) {
    return draw_place = place, draw = std::move(from), *this;
  }
  ValueRow& for_models(bool Architecture::*which, const char* text) {
    return reader = which, readers = text, *this;
  }
  ValueRow& needs(const char* option, const char* placeholder) {
    return companion = option, companion_value = placeholder, *this;
  }
  void assign(const Json& json) const {
    set(name, json.is_string() ? json.get<std::string>() : json.dump());
  }
};

// For run and evaluation folders, which check themselves whether they may be replaced.
inline bool has_own_validator(const std::filesystem::path&) {
  return true;
}

class OptionRows {
 public:
  void group(const std::string& caption) { group_ = caption; }

  // `place`: a number or an optional number.
  template <typename Place>
  ValueRow& number(const char* name, Place& place, const NumberBounds& bounds,
                   const std::string& help);
  ValueRow& toggle(const char* name, bool& place, const std::string& help);
  // A text or a path.
  template <typename Place>
  ValueRow& text(const char* name, Place& place, const char* placeholder, const std::string& help);
  // Columns with commas between them.
  ValueRow& names(const char* name, std::vector<std::string>& value, const std::string& help);
  template <typename T>
  ValueRow& word(const char* name, T& place, const WordTable<T>& table, const char* placeholder,
                 const std::string& help);
  // An option with its own parser. `placeholder`: null for a switch. ConfigError.
  ValueRow& parsed(const char* name, const char* placeholder, SetOption take,
                   const std::string& help);

  const std::deque<ValueRow>& rows() const { return rows_; }
  // False when only help was asked for. ConfigError.
  bool parse(const CommandHelp& help, const std::vector<std::string>& arguments);

  const GivenOptions& given() const { return given_; }
  bool given(std::string_view name) const { return given_.contains(name); }
  // True if an option requests something: it was given or, if it has a default, differs from it.
  bool asks(const ValueRow& row) const;
  void require(std::string_view name) const;  // ConfigError if it has no value
  void check_companions() const;              // ConfigError for options whose companion is missing
  // ConfigError for those of `names` that are given.
  void refuse(const std::vector<std::string>& names, const std::string& why) const;
  // Checks the outputs that options name against the inputs of options and of `inputs` (outputs.h).
  // ConfigError.
  void check_files(std::vector<NamedInput> inputs, bool overwrite) const;

  // The given options as lines of an INI file, except those of the groups `but`; none if a word
  // cannot be written to such a file.
  std::optional<std::string> ini(const std::vector<std::string>& but) const;
  std::vector<const ValueRow*> searched() const;  // in the order of draws
  // Writes the values of rows whose key begins with "`part`." to `json`, under the rest of the key.
  void write(const std::string& part, Json& json) const;

 private:
  // All options: the most used ones first, the others by group.
  boost::program_options::options_description description();

  std::string group_ = "Options";
  std::deque<ValueRow> rows_;
  GivenOptions given_;
  GivenWords words_;  // also of defaults
};

template <typename Place>
ValueRow& OptionRows::number(const char* name, Place& place, const NumberBounds& bounds,
                             const std::string& help) {
  ValueRow& row = parsed(name, "N", coldframe::number(place, bounds), help);
  if constexpr (requires { place.has_value(); }) {
    return row.written([&place] { return place ? Json(*place) : Json(); });
  } else {
    const bool whole = std::is_integral_v<Place>;
    row.show(whole ? concat(place) : exact(static_cast<double>(place)));  // 0.3 of a float, too
    return row.written([&place] { return Json(place); });
  }
}

template <typename Place>
ValueRow& OptionRows::text(const char* name, Place& place, const char* placeholder,
                           const std::string& help) {
  const auto now = [&place] { return std::filesystem::path(place).string(); };
  return parsed(name, placeholder, coldframe::text(place), help)
      .written([now] { return Json(now()); })
      .show(now());
}

template <typename T>
ValueRow& OptionRows::word(const char* name, T& place, const WordTable<T>& table,
                           const char* placeholder, const std::string& help) {
  return parsed(name, placeholder, one_of(place, table), help)
      .written([&place, table] { return Json(word_for(table, place)); })
      .only(words_in(table))
      .show(word_for(table, place));
}

// Option rows that several commands share.

void add_data(OptionRows& rows, TargetOptions& data);
void add_cache(OptionRows& rows, TargetOptions& data);
// The caches of --cache, which no output may replace.
std::vector<NamedInput> cache_inputs(const TargetOptions& data);
// --horizons, of times to an event.
void add_horizons(OptionRows& rows, TargetOptions& data);
void add_bootstrap(OptionRows& rows, BootstrapOptions& bootstrap);
// An empty device is shown as `cpu, with --input auto`.
void add_machine(OptionRows& rows, std::string& device, std::size_t& threads, bool& json);

// ConfigError where a column is named twice.
void check_questions(const Questions& questions);

// The options of `train`, as rows.

inline constexpr const char* kAllControls = "all";  // --compare without a list

void add_train(OptionRows& rows, TrainOptions& options);
// Subsets of these, of which --search draws some.
void add_kind(OptionRows& rows, ModelChoice& choice);
void add_model(OptionRows& rows, ModelConfig& model);
void add_fit(OptionRows& rows, FitOptions& fit);

}  // namespace coldframe::temporal

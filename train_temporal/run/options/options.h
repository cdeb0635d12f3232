// Everything that `coldframe train`, `evaluate` and `predict` can be told, with its default.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/cli/cli.h"
#include "common/system/job_step.h"
#include "common/text/spelling.h"
#include "train_temporal/metrics/intervals.h"
#include "train_temporal/models/registry.h"
#include "train_temporal/report/questions.h"
#include "train_temporal/run/options/covariate_options.h"
#include "train_temporal/run/options/requirements.h"
#include "train_temporal/run/options/tune_options.h"
#include "train_temporal/run/run_folder.h"
#include "train_temporal/splits/labels.h"
#include "train_temporal/training/trainer.h"

namespace coldframe::temporal {

struct TargetOptions {
  std::filesystem::path cache;
  std::string target;            // columns of the cache, or of --labels; see target_list.h
  std::string task = "auto";     // of the targets that name none
  std::filesystem::path labels;  // CSV with columns exam and the target; empty: the cache's column
  std::string positive;          // binary: the value that counts as class 1
  bool exam_is_patient = false;
  UnclearLabels unclear_labels = UnclearLabels::kAsk;
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
  ModelConfig architecture;      // what the options say of it; the cache decides the rest
  FitOptions fit;
  std::vector<std::string> compare;  // models to fit beside it
};

struct TrainOptions : ModelChoice {
  TargetOptions data;
  std::filesystem::path out;
  ExistingRun existing;

  std::size_t folds = 0;         // 0: the cache's `split` column if it has one, else 5; 1: hold-out
  bool each_patient = false;     // as many folds as patients
  bool each_group = false;       // or as groups
  std::string group;             // the column whose values stay together; empty: patients alone
  bool split_column = false;     // insist on the `split` column
  std::filesystem::path splits;  // a splits.csv to follow
  std::size_t repeats = 1;
  std::size_t seeds = 1;
  std::uint64_t seed = 0;

  bool default_compare = false;  // --compare alone: what does not apply to the target is left out
  std::string single_frame = "middle";  // of the model `single`; best: by each fold's validation
  std::int64_t layers = 0;              // 0: each model's own
  TimeInput time = TimeInput::kAuto;
  ViewChoice views = ViewChoice::kAuto;  // of the cache, from which training draws

  CovariateChoice covariates;
  TuneChoice tune;

  std::size_t search = 0;  // settings that every fold tries; 0: those given
  GivenOptions given;      // by name; what is given is not searched

  Questions questions;
  bool maps = false;              // of patches, in the report's example exams
  std::filesystem::path weights;  // of the ViT that made the cache, for `maps`
  std::filesystem::path against;  // a finished run to compare with; empty: none
  BootstrapOptions bootstrap;
  std::string device = "cpu";
  std::size_t threads = 0;  // 0: one per core
  std::size_t jobs = 0;     // fits side by side; 0: see --help
  Residence features = Residence::kAuto;
  std::uint64_t memory_budget = 0;  // bytes that tensors may take on the device; 0: all
  bool benchmark = false;           // train for a few seconds, print what a run will take
  Requirements required;            // ends a run before it begins where they do not hold
  bool json = false;
  std::string part;                     // see ExistingRun::part; empty: the whole
  JobStep step;                         // from the environment
  std::optional<std::string> repeated;  // the options of another run like this, for --config

  std::vector<std::string> models() const;  // the main one first, then those compared
  bool trains(const std::string& model) const;
  std::int64_t layers_of(const Architecture& one) const { return layers > 0 ? layers : one.layers; }
};
// True for the models that --tune trains the ViT with: those that see features, and are not
// kFrozen.
bool tunes(const std::string& model);
// The configurations of all models, twins as they are of the main one.
std::vector<ModelConfig> trained_models(const TrainOptions& options);

// False when only help was asked for. ConfigError.
bool parse_train_options(const std::vector<std::string>& arguments, TrainOptions& options);
// Of the lines of a run's options.ini those that name no file, below a comment that names the
// options which are missing.
std::string portable_options(const std::string& repeated);
// A part of config.json, "fit" or "tune": the options whose rows name a key in it.
Json options_json(TrainOptions options, const std::string& part);

struct ApplyOptions {
  TargetOptions data;
  std::filesystem::path run, bundle;  // one of them
  std::filesystem::path against;      // evaluate: another run to compare with
  std::filesystem::path input;  // exams as they come, for a bundle; empty: those of data.cache
  std::vector<std::string> extraction;  // words of `coldframe extract` on these
  std::filesystem::path out;
  std::filesystem::path explain;  // predict: a CSV of contributions by frame; empty: none
  std::filesystem::path maps;     // predict: a folder of maps of patches; empty: none
  std::filesystem::path weights;  // of the ViT that made a run's cache, for `maps`
  bool other_patients = false;    // than the training's, even where their ids are the same
  bool without_times = false;     // exams of unknown times, to models that were shown them
  bool overwrite = false;
  Questions questions;
  BootstrapOptions bootstrap;
  std::string device;  // "": cpu, with `input` auto
  std::size_t threads = 0;
  bool json = false;
};
bool parse_evaluate_options(const std::vector<std::string>& arguments, ApplyOptions& options);
bool parse_predict_options(const std::vector<std::string>& arguments, ApplyOptions& options);

}  // namespace coldframe::temporal

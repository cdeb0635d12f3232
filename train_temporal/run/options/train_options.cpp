// What the options of `train` make of each other, and which exclude each other.
#include <algorithm>

#include "common/cli/cli.h"
#include "common/cli/error.h"
#include "common/text/text.h"
#include "train_temporal/models/registry.h"
#include "train_temporal/run/options/named_caches.h"
#include "train_temporal/run/options/shared_rows.h"
#include "train_temporal/run/options/train_rows.h"

namespace coldframe::temporal {
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
  if (options.default_compare && options.model == kAutoModel)
    std::erase(names, kGru.name);  // its own
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

#include "train_temporal/run/starts.h"

#include <algorithm>

#include "cache/format/recipe.h"
#include "common/cli/error.h"
#include "common/files/csv.h"
#include "common/text/text.h"
#include "train_temporal/models/model_file.h"
#include "train_temporal/splits/split.h"

namespace coldframe::temporal {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFrozenPrefix = "frozen-";

fs::path earlier_model(const Experiment& experiment, const FitName& fit) {
  const fs::path& run = experiment.options.tune.from;
  const std::string model = thawed(fit.model, experiment.options);
  const bool repeated = experiment.splits.back().repeat > 0;
  const fs::path folder =
      model == experiment.options.model ? models_folder(run) : control_folder(run, model);
  return folder / model_file_name(fit.repeat, fit.fold, fit.seed, repeated);
}

// True when both divide the same exams in the same way.
bool same_splits(const fs::path& run, const Experiment& experiment, const Cohort& cohort) {
  const std::string ours = splits_to_csv(experiment.splits, cohort.exams(), cohort.patients);
  const CsvTable theirs = read_csv(run / "splits.csv");
  const CsvTable expected = parse_csv(ours, "splits.csv");
  return theirs.header == expected.header && theirs.rows == expected.rows;
}

void require_same_model(const Experiment& experiment, const Cohort& cohort, const FitName& fit,
                        const Split& split) {
  const fs::path path = earlier_model(experiment, fit);
  if (!fs::exists(path)) {
    throw ConfigError(concat("--from '", experiment.options.tune.from.string(), "' has no ",
                             fs::relative(path, experiment.options.tune.from).string(),
                             "; give the --model, --folds and --seeds of that run, and --compare "
                             "what it compared"));
  }
  const ModelMetadata card = read_model(path).card;
  if (!card.config.architecture->by_steps)
    throw ConfigError(concat("--from: '", path.string(), "' is a summary of the frames, which ",
                             "nothing goes on from; train that run with --model gru"));
  const FitTask task = experiment.task(frozen_fit(fit, experiment.options), split);
  const auto changes =
      cache::differences(to_json(card.config), to_json(task.config), {"that run has", "now"});
  if (!changes.empty()) {
    throw ConfigError(concat("--from: '", path.string(), "' is another model:\n  ",
                             join(changes, "\n  "), "\ngive the options of that run"));
  }
  if (card.targets != cohort.targets.list())
    throw ConfigError(concat("--from: '", path.string(), "' learnt other targets; expected '",
                             cohort.targets.names(), "'"));
  if (card.recipe.feature_digest() != cohort.cache.recipe().feature_digest()) {
    throw ConfigError(concat(
        "--from: '", path.string(), "' was trained on features of another recipe:\n  ",
        join(cache::differences(card.recipe.features, cohort.cache.recipe().features), "\n  ")));
  }
}

}  // namespace

FitName frozen_fit(const FitName& tuned, const TrainOptions& options) {
  FitName fit = tuned;
  fit.model = fit.model == options.model ? kFrozen : kFrozenPrefix + fit.model;
  return fit;
}

std::string thawed(const std::string& model, const TrainOptions& options) {
  const std::string prefix = kFrozenPrefix;
  if (model == kFrozen) return options.model;
  return model.starts_with(prefix) ? model.substr(prefix.size()) : model;
}

std::shared_ptr<const StateDict> start_of(const Experiment& experiment, const RunFolder& folder,
                                          const FitName& fit) {
  if (!experiment.options.tune.asked()) return nullptr;
  const bool from_run = !experiment.options.tune.from.empty();
  const bool frozen = fit.model.starts_with(kFrozen);
  if (!tunes(fit.model) && !(frozen && from_run)) return nullptr;
  return std::make_shared<StateDict>(
      frozen ? state_dict(*read_model(earlier_model(experiment, fit)).model)
             : read_record(folder.record(frozen_fit(fit, experiment.options))).weights);
}

void check_earlier_run(const Experiment& experiment, const Cohort& cohort) {
  const TrainOptions& options = experiment.options;
  const fs::path& run = options.tune.from;
  if (run.empty()) return;
  if (!fs::exists(run / "splits.csv") || !fs::is_directory(models_folder(run))) {
    throw ConfigError(concat("--from '", run.string(),
                             "' is not a finished run of `coldframe train`: expected splits.csv "
                             "and models/ in it"));
  }
  if (!same_splits(run, experiment, cohort)) {
    throw ConfigError(concat("--from '", run.string(),
                             "' divided the exams otherwise, so that its models may have seen what "
                             "is held out here; give --splits ",
                             (run / "splits.csv").string(), " and the run's labels"));
  }
  for (const std::string& model : options.models()) {
    if (!tunes(model)) continue;
    for (const Split& split : experiment.splits) {
      for (std::size_t seed = 0; seed < options.seeds; ++seed)
        require_same_model(experiment, cohort, {model, split.repeat, split.fold, seed}, split);
    }
  }
}

}  // namespace coldframe::temporal

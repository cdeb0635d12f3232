#include "train_temporal/commands/run_files.h"

#include <algorithm>
#include <filesystem>

#include "common/cli/error.h"
#include "common/files/publish/atomic_file.h"
#include "common/text/text.h"
#include "train_temporal/labels/split.h"
#include "train_temporal/models/model_file.h"
#include "train_temporal/report/report_files.h"
#include "train_temporal/run/exam_checks.h"
#include "train_temporal/run/results.h"
#include "train_temporal/run/warm_start.h"

namespace coldframe::temporal {

namespace {

std::string cell_text(const Json& value) {
  const auto is_word = [](const Json& one) { return one.is_string(); };
  if (!value.is_array() || !std::ranges::all_of(value, is_word)) return shown(value);
  return value.empty() ? "none" : join(value.get<std::vector<std::string>>(), ", ");
}

void flatten(const std::string& prefix, const Json& json, KeyValues& out) {
  for (const auto& [key, value] : json.items()) {
    if (value.is_object())
      flatten(prefix + key + ".", value, out);
    else
      out.emplace_back(prefix + key, cell_text(value));
  }
}

}  // namespace

KeyValues flat_config(Json config) {
  if (config.contains("search")) config["search"] = config["search"].size();
  KeyValues all;
  flatten("", config, all);
  return all;
}

void write_tables(const RunFolder& folder, const Experiment& experiment, const Cohort& cohort,
                  const std::vector<FinishedFit>& fits,
                  const std::vector<ModelPredictions>& models) {
  write_file_atomically(folder.file("splits.csv"),
                        splits_to_csv(experiment.splits, cohort.exams(), cohort.patients));
  write_file_atomically(folder.file("metrics.csv"), epochs_csv(fits));
  for (const ModelPredictions& model : models) {
    const bool main = model.model == experiment.options.model;
    const std::string name = main ? kPredictions : concat("predictions-", model.model, ".csv");
    write_file_atomically(folder.file(name), to_csv(model.held_out));
  }
  write_file_atomically(folder.file("validation.csv"), to_csv(models.front().validation));
  if (const auto& repeated = experiment.options.repeated)
    write_file_atomically(
        folder.file(kRunOptions),
        concat("# As this run was asked for: coldframe train --config options.ini --out RUN\n",
               *repeated));
}

void write_models(const RunFolder& folder, const Experiment& experiment, const Cohort& cohort,
                  const std::vector<std::string>& source_kinds,
                  const std::vector<FinishedFit>& fits,
                  const std::vector<ModelPredictions>& models) {
  ModelMetadata card;
  card.recipe = cohort.cache.recipe();
  card.targets = cohort.targets.list();
  card.source_kinds = source_kinds;
  card.modalities = modalities(cohort.exams(), cohort.labeled());
  card.arrangement = experiment.options.data.arrangement;
  const bool repeated = std::any_of(experiment.splits.begin(), experiment.splits.end(),
                                    [](const Split& split) { return split.repeat > 0; });
  BackboneWriter backbones(card.recipe);
  const std::size_t of_model = experiment.splits.size() * experiment.options.seeds;
  for (std::size_t i = 0; i < fits.size(); ++i) {
    const FitName& name = fits[i].name;
    const auto& readouts = models[i / of_model].readouts[i % of_model / experiment.options.seeds];
    card.repeat = name.repeat;
    card.fold = name.fold;
    card.seed = name.seed;
    card.fit_seed = fits[i].record.seed;
    const FitTask task = experiment.task(name, *fits[i].split);
    card.config = task.config;
    card.covariates = experiment.encoding(name, *fits[i].split);
    std::vector<std::size_t> lengths;
    for (std::size_t exam : fits[i].split->train)
      lengths.push_back(present_frames(cohort.exams()[exam]));
    const auto [least, most] = std::ranges::minmax(lengths);
    card.least_frames = least;
    card.max_frames = most;
    card.readouts.clear();
    for (const FoldReadout& one : readouts) card.readouts.push_back(one.seeds[name.seed]);
    const auto place = name.model == experiment.options.model
                           ? models_folder(folder.file(""))
                           : control_folder(folder.file(""), name.model);
    std::filesystem::create_directories(place);
    const auto file = place / model_file_name(name.repeat, name.fold, name.seed, repeated);
    const FitRecord record = read_record(folder.record(experiment.recorded(name)));
    card.tuned.reset();
    if (task.tuned != nullptr)
      card.tuned = {task.tuned->architecture().depth - task.options.tune.vit.blocks,
                    backbones.write(backbone_folder(file), task, record)};
    write_model(file, record.weights, card);
  }
}

void write_figures(const std::filesystem::path& folder, const RunReport& report,
                   const html::Page& page) {
  const auto place = folder / kFiguresFolder;
  std::filesystem::create_directories(place);
  write_file_atomically(place / kLatexFile, latex_tables(page));
  for (const auto& [name, content] : report_files(report))
    write_file_atomically(place / name, content);
}

void require_figures(const std::filesystem::path& run) {
  if (std::filesystem::exists(run / kFiguresFolder)) return;
  throw ConfigError(concat("the run in '", run.string(),
                           "' is finished without --figures; `coldframe evaluate --run RUN "
                           "--against RUN --figures --out FOLDER` with this run twice draws what "
                           "it held out"));
}

}  // namespace coldframe::temporal

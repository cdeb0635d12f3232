#include "train_temporal/run/warm_start.h"

#include <algorithm>

#include "cache/format/recipe.h"
#include "common/cli/error.h"
#include "common/files/csv.h"
#include "common/files/fingerprint.h"
#include "common/files/publish/atomic_file.h"
#include "common/text/text.h"
#include "extract/pipeline/recipe.h"
#include "train_temporal/labels/split.h"
#include "train_temporal/models/model_file.h"

namespace coldframe::temporal {

namespace {

namespace fs = std::filesystem;

constexpr const char* kFrozenPrefix = "frozen-";

fs::path earlier_model(const Experiment& experiment, const FitName& fit) {
  const fs::path& run = experiment.options.tune.from;
  const std::string model = tuned_counterpart(fit.model, experiment.options);
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

std::string tuned_counterpart(const std::string& model, const TrainOptions& options) {
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
                             shell_word((run / "splits.csv").string()), " and the run's labels"));
  }
  for (const std::string& model : options.models()) {
    if (!tunes(model)) continue;
    for (const Split& split : experiment.splits) {
      for (std::size_t seed = 0; seed < options.seeds; ++seed)
        require_same_model(experiment, cohort, {model, split.repeat, split.fold, seed}, split);
    }
  }
}

namespace {

namespace fs = std::filesystem;

constexpr const char* kFrozenShard = "model-00001-of-00002.safetensors";
constexpr const char* kTunedShard = "model-00002-of-00002.safetensors";

StateDict whole(const FitTask& task, const FitRecord& record) {
  tune::TunedVit vit(*task.tuned, task.options.tune.vit, task.seed, torch::kCPU);
  torch::NoGradGuard no_grad;
  for (auto& item : vit.trainable().named_parameters())
    item.value().copy_(record.tuned.at(item.key()));
  return vit.merged();
}

Json shard_index(const StateDict& frozen, const StateDict& tuned) {
  Json json;
  std::uint64_t bytes = 0;
  for (const auto& [file, tensors] : {std::pair{kFrozenShard, &frozen}, {kTunedShard, &tuned}}) {
    for (const auto& [name, tensor] : *tensors) {
      json["weight_map"][name] = file;
      bytes += tensor.nbytes();
    }
  }
  json["metadata"]["total_size"] = bytes;
  return json;
}

// The tuned weights have a file, also where those that they come from had none.
cache::Recipe recipe_of_features(const cache::Recipe& recipe) {
  cache::Recipe features{recipe.features, Json::object(), Json::object()};
  features.features["backbone"].erase("seed");
  return features;
}

}  // namespace

void BackboneWriter::write_frozen(const fs::path& path, const StateDict& tensors) {
  std::error_code error;
  if (frozen_.empty()) {
    write_safetensors(path, tensors, {{"format", "pt"}});
    frozen_ = path;
    return;
  }
  fs::remove(path, error);
  fs::create_hard_link(frozen_, path, error);
  if (error) fs::copy_file(frozen_, path);  // a disk without links
}

std::string BackboneWriter::write(const fs::path& folder, const FitTask& task,
                                  const FitRecord& record) {
  create_folders_durably(folder);
  StateDict frozen, tuned;
  // Tensors that no fit trains are the source's own: all folds can share their file.
  for (const auto& [name, tensor] : whole(task, record))
    (tensor.is_same(task.tuned->tensors().at(name)) ? frozen : tuned)[name] = tensor;
  write_file_atomically(folder / "extract.ini", extract::recipe_lines(recipe_of_features(recipe_)));
  const Json config = timm_config(recipe_.features, task.tuned->model_name());
  if (!config.is_null()) write_file_atomically(folder / "config.json", config.dump(2) + "\n");
  if (frozen.empty()) {
    write_safetensors(folder / "model.safetensors", tuned, {{"format", "pt"}});
    return sha256_file(folder / "model.safetensors");
  }
  write_frozen(folder / kFrozenShard, frozen);
  write_safetensors(folder / kTunedShard, tuned, {{"format", "pt"}});
  write_file_atomically(folder / "model.safetensors.index.json",
                        shard_index(frozen, tuned).dump(2) + "\n");
  std::string lines;  // as extract's digest of several files
  for (const char* shard : {kFrozenShard, kTunedShard})
    lines += concat(sha256_file(folder / shard), " ", shard, "\n");
  return sha256_hex(lines);
}

Json timm_config(const Json& features, const std::string& model) {
  const Json& pixels = features.at("preprocessing");
  const Json& backbone = features.at("backbone");
  static const std::map<std::string, std::string> pools = {
      {"cls", "token"}, {"mean", "avg"}, {"map", "map"}};
  static const std::map<std::string, std::string> resizes = {
      {"shortest", "center"}, {"squash", "squash"}, {"pad", "border"}};
  const auto pool = pools.find(backbone.at("pooling").get<std::string>());
  const bool said = !model.empty() && pool != pools.end() && !backbone.contains("layers") &&
                    !backbone.contains("projection") && pixels.at("resampler") == "pillow";
  if (!said) return nullptr;
  const Json& size = pixels.at("image_size");
  const Json height = size.is_array() ? size.at(0) : size,
             width = size.is_array() ? size.at(1) : size;
  return {{"architecture", model},
          {"num_classes", 0},
          {"global_pool", pool->second},
          {"pretrained_cfg",
           {{"num_classes", 0},
            {"input_size", {3, height, width}},
            {"interpolation", pixels.at("interpolation")},
            {"crop_pct", pixels.at("crop_pct")},
            {"crop_mode", resizes.at(pixels.at("resize").get<std::string>())},
            {"mean", pixels.at("mean")},
            {"std", pixels.at("std")}}}};
}

}  // namespace coldframe::temporal

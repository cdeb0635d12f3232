#include "train_temporal/models/model_file.h"

#include <algorithm>
#include <cmath>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "train_temporal/models/operations.h"
#include "train_temporal/models/summary_model.h"

namespace coldframe::temporal {
namespace {

constexpr const char* kFormat = "coldframe.temporal.1";

Json card_json(const ModelMetadata& card) {
  Json json;
  json["model"] = to_json(card.config);
  json["targets"] = Json::array();
  for (std::size_t t = 0; t < card.targets.size(); ++t) {
    Json& entry = json["targets"].emplace_back(to_json(card.targets[t]));
    add_readout(entry, card.targets[t], card.readouts[t]);
  }
  json["repeat"] = card.repeat;
  json["fold"] = card.fold;
  json["seed"] = card.seed;
  json["fit_seed"] = card.fit_seed;
  json["source_kinds"] = card.source_kinds;
  if (!card.modalities.empty()) json["modalities"] = card.modalities;
  json["frames"] = {card.least_frames, card.max_frames};
  if (!card.arrangement.visits.empty()) json["visits"] = card.arrangement.visits;
  if (!card.arrangement.stream_column.empty()) json["streams"] = card.arrangement.stream_column;
  if (!card.covariates.empty()) json["covariates"] = card.covariates.to_json();
  if (card.tuned) {
    json["tuned"] = {{"block", card.tuned->block}, {"weights_sha256", card.tuned->weights_sha256}};
  }
  return json;
}

ModelMetadata card_from_json(const Json& json) {
  ModelMetadata card;
  card.config = model_config_from_json(json.at("model"));
  for (const Json& entry : json.at("targets")) {
    card.targets.push_back(target_from_json(entry));
    card.readouts.push_back(readout_from_json(entry, card.targets.back()));
  }
  card.repeat = json.at("repeat").get<std::size_t>();
  card.fold = json.at("fold").get<std::size_t>();
  card.seed = json.at("seed").get<std::size_t>();
  card.fit_seed = json.at("fit_seed").get<std::uint64_t>();
  card.source_kinds = json.at("source_kinds").get<std::vector<std::string>>();
  card.modalities = json.value("modalities", std::vector<std::string>());
  card.least_frames = json.at("frames").at(0).get<std::size_t>();
  card.max_frames = json.at("frames").at(1).get<std::size_t>();
  card.arrangement = {json.value("streams", ""), card.config.streams, json.value("visits", "")};
  if (card.arrangement.stream_column.empty() != card.config.streams.empty())
    throw DataError("its card and its model do not agree on streams; the file is damaged");
  if (json.contains("covariates"))
    card.covariates = CovariateEncoding::from_json(json["covariates"]);
  if (json.contains("tuned")) {
    card.tuned = {json["tuned"].at("block").get<std::int64_t>(),
                  json["tuned"].at("weights_sha256").get<std::string>()};
  }
  return card;
}

// Shapes of the file's own tensors bound what a damaged configuration could make us allocate.
void require_shape(const std::filesystem::path& path, const StateDict& weights,
                   const std::string& name, torch::IntArrayRef expected) {
  const auto found = weights.find(name);
  if (found == weights.end()) {
    throw DataError(concat("'", path.string(), "' lacks the tensor '", name, "'"));
  }
  if (found->second.sizes() == expected) return;
  throw DataError(concat("'", path.string(), "': tensor '", name, "' is ",
                         shape_text(found->second.sizes()), ", expected ", shape_text(expected)));
}

// Families are numbers of Family.
void check_families(const std::filesystem::path& path, const StateDict& weights,
                    const ModelConfig& config) {
  require_shape(path, weights, "head.weight", {config.outputs, config.dimension});
  require_shape(path, weights, "family", {config.outputs});
  const torch::Tensor family = weights.at("family");
  const bool known = (family == family.round()).all().item<bool>() &&
                     family.min().item<double>() >= 0 && family.max().item<double>() < kFamilies;
  if (!known)
    throw DataError(concat("'", path.string(), "': the tensor 'family' names summaries that this ",
                           "version does not know; the file is damaged or of a newer version"));
}

void check_shapes(const std::filesystem::path& path, const StateDict& weights,
                  const ModelMetadata& card) {
  const ModelConfig& config = card.config;
  std::size_t outputs = 0;
  bool same_rows = !card.targets.empty();
  for (const Target& target : card.targets) {
    outputs += target.outputs();
    same_rows &= target.per_frame == config.per_frame();
  }
  if (!same_rows || static_cast<std::int64_t>(outputs) != config.outputs) {
    throw DataError(concat("'", path.string(), "' names targets with ", plural(outputs, "output"),
                           ", but its model has ", config.outputs));
  }
  if (card.covariates.width() != config.covariates) {
    throw DataError(concat("'", path.string(), "' encodes covariates as ",
                           plural(card.covariates.width(), "number"), ", but its model takes ",
                           config.covariates));
  }
  if (config.architecture == &kSummary) check_families(path, weights, config);
  for (const TensorRow& row : tensors_of(config)) require_shape(path, weights, row.name, row.shape);
}

void check_numbers(const std::filesystem::path& path, const StateDict& weights,
                   const ModelMetadata& card) {
  for (const Readout& readout : card.readouts) {
    const auto require = [&](bool fine, const char* what, double value) {
      if (fine && std::isfinite(value)) return;
      throw DataError(
          concat("'", path.string(), "': the ", what, " is ", value,
                 ", expected a finite number, of a temperature or a deviation above 0"));
    };
    require(readout.temperature > 0, "temperature", readout.temperature);
    require(readout.deviation > 0, "deviation", readout.deviation);
    require(true, "threshold", readout.threshold);
    require(true, "mean", readout.mean);
  }
  for (const auto& [name, tensor] : weights) {
    if (tensor.isfinite().all().item<bool>()) continue;
    throw DataError(concat("'", path.string(), "': tensor '", name,
                           "' holds values that are not finite; the file is damaged or its "
                           "training diverged"));
  }
}

}  // namespace

std::filesystem::path backbone_folder(const std::filesystem::path& model) {
  return model.parent_path() / model.stem();
}

std::vector<double> scores_of(const ModelMetadata& card, std::size_t target,
                              const std::vector<double>& outputs) {
  const Target& one = card.targets[target];
  return scores_of(one, card.readouts[target],
                   columns(outputs, static_cast<std::size_t>(card.config.outputs),
                           first_output(card.targets, target), one.outputs()));
}

StateDict state_dict(const torch::nn::Module& module) {
  StateDict tensors;
  const auto add = [&](const auto& items) {
    for (const auto& item : items)
      tensors[item.key()] = item.value().detach().cpu().contiguous().clone();
  };
  add(module.named_parameters());
  add(module.named_buffers());
  return tensors;
}

void load_weights(const std::filesystem::path& path, SequenceModel& model,
                  const StateDict& weights) {
  torch::NoGradGuard no_grad;
  std::vector<std::pair<std::string, torch::Tensor>> targets;
  for (const auto& item : model.named_parameters()) targets.emplace_back(item.key(), item.value());
  for (const auto& item : model.named_buffers()) targets.emplace_back(item.key(), item.value());
  for (auto& [name, target] : targets) {
    require_shape(path, weights, name, target.sizes());
    target.copy_(weights.at(name));
  }
  if (weights.size() == targets.size()) return;
  for (const auto& [name, tensor] : weights) {
    if (std::none_of(targets.begin(), targets.end(), [&](auto& t) { return t.first == name; })) {
      throw DataError(concat("'", path.string(), "' has a tensor '", name,
                             "' that its configuration does not know"));
    }
  }
}

void write_model(const std::filesystem::path& path, const StateDict& weights,
                 const ModelMetadata& card) {
  write_sealed_safetensors(path, weights,
                           {{"format", kFormat},
                            {"card", card_json(card).dump()},
                            {"recipe", to_json(card.recipe).dump()},
                            {"feature_digest", card.recipe.feature_digest()}});
}

TrainedModel read_model(const std::filesystem::path& path) {
  const SafetensorsFile file = read_sealed_safetensors(path);
  const auto entry = [&](const char* key) -> const std::string& {
    const auto found = file.metadata.find(key);
    if (found != file.metadata.end()) return found->second;
    throw DataError(concat("'", path.string(),
                           "' is not a model of `coldframe train`: its metadata "
                           "has no '",
                           key, "'"));
  };
  if (entry("format") != kFormat) {
    throw DataError(concat("'", path.string(), "' has format '", entry("format"),
                           "', this version reads '", kFormat, "'"));
  }
  TrainedModel trained;
  trained.file = path;
  const Json card = parse_json(entry("card"), path.string());
  try {
    trained.card = card_from_json(card);
  } catch (const Json::exception& error) {
    throw DataError(concat("'", path.string(), "': ", error.what()));
  } catch (const DataError& error) {
    throw DataError(concat("'", path.string(), "': ", error.what()));
  }
  trained.card.recipe = cache::recipe_from_json(parse_json(entry("recipe"), path.string()));
  check_shapes(path, file.tensors, trained.card);
  check_numbers(path, file.tensors, trained.card);
  trained.model = make_model(trained.card.config, 0);
  load_weights(path, *trained.model, file.tensors);
  return trained;
}

}  // namespace coldframe::temporal

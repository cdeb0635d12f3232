#include "train_temporal/training/checkpoint.h"

#include "common/cli/error.h"
#include "common/text/text.h"
#include "common/torch/precision.h"

namespace coldframe::temporal {
namespace {

constexpr const char *kWeightPrefix = "model.", *kTunedPrefix = "vit.";

Json history_json(const std::vector<EpochLosses>& history) {
  Json rows = Json::array();
  for (const EpochLosses& row : history) {
    rows.push_back(Json::array({row.train, row.validation, row.learning_rate, row.figure,
                                row.measured ? Json(*row.measured) : Json()}));
  }
  return rows;
}

std::vector<EpochLosses> history_from_json(const Json& rows) {
  std::vector<EpochLosses> history;
  for (const Json& row : rows) {
    history.push_back({row.at(0).get<double>(), row.at(1).get<double>(), row.at(2).get<double>(),
                       row.at(3).get<double>()});
    if (!row.at(4).is_null()) history.back().measured = row.at(4).get<double>();
  }
  return history;
}

MicroBatches micro_batches_from_json(const Json& json) {
  const MicroBatches micro_batches{json.at(0).get<std::size_t>(), json.at(1).get<std::size_t>()};
  if (micro_batches.training > 0 && micro_batches.evaluation > 0) return micro_batches;
  throw std::out_of_range("pieces");
}

torch::Tensor double_tensor(const std::vector<double>& values) {
  return torch::tensor(values, torch::kFloat64);
}

// The tensors whose names begin so, under the rest of them.
StateDict with_prefix(const StateDict& tensors, const std::string& prefix) {
  StateDict result;
  for (const auto& [name, tensor] : tensors) {
    if (name.starts_with(prefix)) result[name.substr(prefix.size())] = tensor;
  }
  return result;
}

SafetensorsFile read_file(const std::filesystem::path& path) {
  try {
    return read_sealed_safetensors(path);
  } catch (const DataError& error) {
    throw DataError(concat(error.what(), "; delete it, and --resume does this fit anew"));
  }
}

// Runs `read` on the file; what is missing or of another type in it ends in one DataError.
template <typename Read>
auto checked(const std::filesystem::path& path, const Read& read) {
  const SafetensorsFile file = read_file(path);
  try {
    const Json json = parse_json(file.metadata.at("state"), path.string());
    return read(file.tensors, json);
  } catch (const std::out_of_range&) {
    throw DataError(concat("'", path.string(), "' lacks an entry; start again with --overwrite"));
  } catch (const Json::exception& error) {
    throw DataError(
        concat("'", path.string(), "': ", error.what(), "; start again with --overwrite"));
  }
}

Json state_json(const FitState& state) {
  Json json;
  json["seed"] = state.seed;
  json["steps"] = state.steps;
  json["best_loss"] = json_number(state.early_stop.best_loss);
  json["best_figure"] = state.early_stop.best_figure;
  json["best_epoch"] = state.early_stop.best_epoch;
  json["epochs"] = state.early_stop.epochs;
  json["history"] = history_json(state.history);
  json["pieces"] = Json::array({state.micro_batches.training, state.micro_batches.evaluation});
  json["loss_scale"] = Json::array({state.loss_scale.factor, state.loss_scale.steady});
  json["vit_budget"] = state.vit_budget;
  json["vit_peak"] = state.vit_peak;
  return json;
}

void read_state(const Json& json, FitState& state) {
  state.seed = json.at("seed").get<std::uint64_t>();
  state.steps = json.at("steps").get<std::int64_t>();
  if (!json.at("best_loss").is_null()) {
    state.early_stop.best_loss = json.at("best_loss").get<double>();
  }
  state.early_stop.best_figure = json.at("best_figure").get<double>();
  state.early_stop.best_epoch = json.at("best_epoch").get<std::size_t>();
  state.early_stop.epochs = json.at("epochs").get<std::size_t>();
  state.history = history_from_json(json.at("history"));
  state.micro_batches = micro_batches_from_json(json.at("pieces"));
  const Json& scale = json.at("loss_scale");
  state.loss_scale = {scale.at(0).get<double>(), scale.at(1).get<std::size_t>()};
  state.vit_budget = json.at("vit_budget").get<std::uint64_t>();
  state.vit_peak = json.at("vit_peak").get<std::uint64_t>();
}

}  // namespace

void write_checkpoint(const std::filesystem::path& path, const FitState& state) {
  write_sealed_safetensors(path,
                           {{"parameters", state.parameters.cpu()},
                            {"first_moment", state.first_moment.cpu()},
                            {"second_moment", state.second_moment.cpu()},
                            {"best_parameters", state.best_parameters.cpu()}},
                           {{"state", state_json(state).dump()}});
}

FitState read_checkpoint(const std::filesystem::path& path) {
  return checked(path, [](const StateDict& tensors, const Json& json) {
    FitState state;
    read_state(json, state);
    state.parameters = tensors.at("parameters");
    state.first_moment = tensors.at("first_moment");
    state.second_moment = tensors.at("second_moment");
    state.best_parameters = tensors.at("best_parameters");
    return state;
  });
}

void write_record(const std::filesystem::path& path, const FitRecord& record) {
  StateDict tensors;
  for (const auto& [name, tensor] : record.weights) tensors[kWeightPrefix + name] = tensor;
  for (const auto& [name, tensor] : record.tuned) tensors[kTunedPrefix + name] = tensor;
  tensors["validation_logits"] = double_tensor(record.validation_logits);
  tensors["test_logits"] = double_tensor(record.test_logits);
  if (!record.train_logits.empty()) tensors["train_logits"] = double_tensor(record.train_logits);
  Json json;
  json["seed"] = record.seed;
  json["best_epoch"] = record.best_epoch;
  json["diverged"] = record.diverged;
  json["vit_budget"] = record.vit_budget;
  json["vit_peak"] = record.vit_peak;
  json["pieces"] = Json::array({record.micro_batches.training, record.micro_batches.evaluation});
  if (!record.families.empty()) json["lead"] = record.lead ? Json(*record.lead) : Json();
  json["history"] = history_json(record.history);
  write_sealed_safetensors(path, tensors, {{"state", json.dump()}});
}

FitRecord read_record(const std::filesystem::path& path) {
  return checked(path, [](const StateDict& tensors, const Json& json) {
    FitRecord record;
    record.seed = json.at("seed").get<std::uint64_t>();
    record.best_epoch = json.at("best_epoch").get<std::size_t>();
    record.diverged = json.at("diverged").get<bool>();
    record.vit_budget = json.at("vit_budget").get<std::uint64_t>();
    record.vit_peak = json.at("vit_peak").get<std::uint64_t>();
    record.micro_batches = micro_batches_from_json(json.at("pieces"));
    record.history = history_from_json(json.at("history"));
    record.validation_logits = doubles(tensors.at("validation_logits"));
    record.test_logits = doubles(tensors.at("test_logits"));
    if (tensors.contains("train_logits")) record.train_logits = doubles(tensors.at("train_logits"));
    record.weights = with_prefix(tensors, kWeightPrefix);
    record.tuned = with_prefix(tensors, kTunedPrefix);
    if (!record.weights.contains("family")) return record;
    record.families = doubles(record.weights["family"]);
    if (const Json& lead = json.at("lead"); !lead.is_null()) record.lead = lead.get<double>();
    return record;
  });
}

}  // namespace coldframe::temporal

#include "train_temporal/models/model_config.h"

#include <algorithm>
#include <ranges>

#include "common/cli/cli.h"
#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe::temporal {

namespace {

const WordTable<FrameOrder> kOrders{{"in_order", FrameOrder::kInOrder},
                                    {"first", FrameOrder::kFirst},
                                    {"middle", FrameOrder::kMiddle},
                                    {"last", FrameOrder::kLast},
                                    {"shuffled", FrameOrder::kShuffled}};
constexpr const char *kGated = "gated", *kSideBySide = "concat";

void read_streams(const Json& json, ModelConfig& config) {
  config.streams = json.at("streams").get<std::vector<std::string>>();
  config.gated = json.at("fusion").get<std::string>() == kGated;
  config.only_stream = json.value("only_stream", std::int64_t{-1});
  const auto count = static_cast<std::int64_t>(config.streams.size());
  if (count >= 2 && config.features() % count == 0 && config.features() > count &&
      config.only_stream >= -1 && config.only_stream < count &&
      !(config.gated && config.frame_covariates))
    return;
  throw DataError(concat("model configuration: ", count, " streams in a dimension of ",
                         config.dimension, "; the file is damaged or not a Coldframe model"));
}

}  // namespace

std::string impossible(const ModelConfig& config) {
  const Architecture& model = *config.architecture;
  if (model.even_width && config.hidden % 2 != 0)
    return concat("a ", model.name, " of width ", config.hidden, ", which is odd");
  const bool beyond = model.ordered && !model.recurrent;
  const bool decays = config.time_encoding == TimeEncoding::kDecay && model.ordered &&
                      (!model.decays || config.bidirectional);
  if (!decays && !(beyond && config.bidirectional)) return "";
  return concat(model_name(config), " with ", decays ? "time_encoding decay" : "bidirectional true",
                ", which it cannot have");
}

Json to_json(const ModelConfig& config) {
  Json json;
  json["architecture"] = config.architecture->name;
  json["frame_order"] = word_for(kOrders, config.order);
  if (config.blank) json["blank"] = true;
  json["dimension"] = config.dimension;
  if (config.covariates > 0) {
    json["covariates"] = config.covariates;
    json["covariates_at"] = config.frame_covariates ? "frames" : "head";
  }
  json["clock_width"] = config.clock_width;
  json["classes"] = config.outputs;
  json["hidden"] = config.hidden;
  json["layers"] = config.layers;
  json["bidirectional"] = config.bidirectional;
  json["temporal_pool"] = word_for(kTemporalPools, config.pool);
  json["time"] = config.time;
  if (config.elapsed) json["elapsed"] = true;
  json["time_encoding"] = word_for(kTimeEncodings, config.time_encoding);
  json["dropout"] = config.dropout;
  if (config.inputs != Inputs::kLevel) json["inputs"] = word_for(kInputs, config.inputs);
  if (config.streams.empty()) return json;
  json["streams"] = config.streams;
  json["fusion"] = config.gated ? kGated : kSideBySide;
  if (config.only_stream >= 0) json["only_stream"] = config.only_stream;
  return json;
}

ModelConfig model_config_from_json(const Json& json) {
  const auto bounded = [&](const char* key, std::int64_t low, std::int64_t high) {
    const auto value = json.at(key).get<std::int64_t>();
    if (value >= low && value <= high) return value;
    throw DataError(concat("model configuration: ", key, " is ", value, ", expected ", low, " to ",
                           high, "; the file is damaged or not a Coldframe model"));
  };
  try {
    ModelConfig config;
    const auto pick = [&](const char* key, const auto& table) {
      const auto value = value_for(table, json.at(key).get<std::string>());
      if (value) return *value;
      throw DataError(concat("model configuration: ", key, " is ", json.at(key).dump(),
                             ", expected one of ", join(words_in(table), ", ")));
    };
    config.architecture = pick("architecture", architectures());
    config.order = pick("frame_order", kOrders);
    config.blank = json.value("blank", false);
    config.dimension = bounded("dimension", 1, 1 << 20);
    if (json.contains("covariates")) {
      config.covariates = bounded("covariates", 1, 1 << 16);
      config.frame_covariates = json.at("covariates_at").get<std::string>() == "frames";
      if (config.frame_covariates) bounded("dimension", config.covariates + 1, 1 << 20);
    }
    config.clock_width = bounded("clock_width", 0, 1 << 12);
    config.outputs = bounded("classes", 1, 1 << 16);
    config.hidden = bounded("hidden", 1, 1 << 16);
    config.layers = bounded("layers", 1, config.architecture->max_layers);
    config.bidirectional = json.at("bidirectional").get<bool>();
    config.pool = pick("temporal_pool", kTemporalPools);
    config.time = json.at("time").get<bool>();
    config.elapsed = json.value("elapsed", false);
    if (config.elapsed && !config.time && config.architecture != &kClock)
      throw DataError(
          "model configuration: elapsed without time; the file is damaged or not a Coldframe "
          "model");
    config.time_encoding = pick("time_encoding", kTimeEncodings);
    config.dropout = json.at("dropout").get<double>();
    if (json.contains("inputs")) config.inputs = pick("inputs", kInputs);
    const bool divides = config.seen_features() % parts_of(config.inputs) == 0;
    if (!divides || (config.inputs != Inputs::kLevel && json.contains("streams")))
      throw DataError(concat("model configuration: inputs '", word_for(kInputs, config.inputs),
                             "' of ", config.dimension, divides ? ", with streams" : "",
                             "; the file is damaged or not a Coldframe model"));
    if (json.contains("streams")) read_streams(json, config);
    const std::string name = model_name(config);  // DataError when there is none
    const Architecture& model = *config.architecture;
    if (const std::string what = impossible(config); !what.empty())
      throw DataError(
          concat("model configuration: ", what, "; the file is damaged or not a Coldframe model"));
    if (config.per_frame() && (is_one_frame(config.order) || !model.per_frame)) {
      throw DataError(concat("model configuration: ", name,
                             " with temporal_pool none, which wants an output per frame; the file "
                             "is damaged or not a Coldframe model"));
    }
    return config;
  } catch (const Json::exception& error) {
    throw DataError(concat("model configuration: ", error.what()));
  }
}

namespace {

constexpr NamedModel kChoiceNames[] = {
    {.name = kAutoModel,
     .architecture = &kGru,
     .about = "frames in order, or a summary of them, as each fit's validation part chose",
     .chooses = true},
};

constexpr NamedModel kTwinNames[] = {
    {.name = "shuffled",
     .architecture = &kGru,
     .about = "(control): frames in random order",
     .order = FrameOrder::kShuffled,
     .twin = true,
     .compared = true,
     .names_covariates = true},
    {.name = kBlank,
     .architecture = &kGru,
     .about = "(control): the same model, features blanked; it sees times",
     .blank = true,
     .twin = true,
     .compared = true,
     .names_covariates = true},
};

// ConfigError, which lists the streams, where there is no such one.
void see_only(ModelConfig& config, const std::string& name) {
  std::vector<std::string> names;
  for (const std::string& stream : config.streams) names.push_back(kOnlyPrefix + stream);
  config.only_stream = static_cast<std::int64_t>(choice("compare", name, names));
}

// Per frame `single` is every frame by itself.
FrameOrder order_of(const NamedModel& model, const ModelConfig& config) {
  return config.per_frame() && is_one_frame(model.order) ? FrameOrder::kInOrder : model.order;
}

bool has_twin(const ModelConfig& config, const NamedModel& twin) {
  return twin.blank ? config.architecture->sees_frames : config.architecture->ordered;
}

bool describes(const NamedModel& model, const ModelConfig& config) {
  if (model.blank) return config.blank;
  const bool ordered = config.architecture->ordered || config.architecture == &kSummary;
  if (model.twin) return ordered && config.order == model.order;
  const bool one_frame = is_one_frame(model.order) && is_one_frame(config.order);
  return config.architecture == model.architecture &&
         (one_frame || config.order == order_of(model, config)) &&
         (!model.bidirectional || config.bidirectional);
}

}  // namespace

std::span<const NamedModel> named_models() {
  static const std::vector<NamedModel> all = [] {
    std::vector<NamedModel> rows;
    for (const std::span<const NamedModel> part :
         {std::span<const NamedModel>(kChoiceNames), recurrent_models(), transformer_models(),
          convolutional_models(), pooled_models(), summary_models(),
          std::span<const NamedModel>(kTwinNames), models_without_frames()})
      rows.insert(rows.end(), part.begin(), part.end());
    return rows;
  }();
  return all;
}

const NamedModel* find_model(const std::string& name) {
  const auto models = named_models();
  const auto found = std::ranges::find(models, name, &NamedModel::name);
  return found == models.end() ? nullptr : &*found;
}

const WordTable<const Architecture*>& architectures() {
  static const WordTable<const Architecture*> table = [] {
    WordTable<const Architecture*> all;
    for (const NamedModel& model : named_models())
      if (!value_for(all, model.architecture->name))
        all.emplace_back(model.architecture->name, model.architecture);
    return all;
  }();
  return table;
}

std::vector<std::string> model_names() {
  return model_names([](const NamedModel&) { return true; });
}

bool is_twin(const std::string& name) {
  const NamedModel* model = find_model(name);
  return name.starts_with(kOnlyPrefix) || (model != nullptr && model->twin);
}

void set_model(ModelConfig& config, const std::string& name) {
  if (name.starts_with(kOnlyPrefix)) return see_only(config, name);
  const NamedModel& model = named_models()[choice("model", name, model_names())];
  config.blank = model.blank;
  if (model.twin && has_twin(config, model)) {
    if (!model.blank) config.order = model.order;
    return;
  }
  config.architecture = model.architecture;
  config.order = order_of(model, config);
  if (model.bidirectional) config.bidirectional = true;
}

std::string model_name(const ModelConfig& config) {
  if (config.only_stream >= 0)
    return kOnlyPrefix + config.streams[static_cast<std::size_t>(config.only_stream)];
  // The last row that describes it: a GRU is `gru`, and one that reads both ways `bigru`.
  for (const NamedModel& model : named_models() | std::views::reverse)
    if (describes(model, config)) return model.name;
  throw DataError("model configuration: no model has this architecture and order of frames");
}

std::string about_model(const std::string& name, bool per_frame, bool covariates) {
  const NamedModel* model = find_model(name);
  const bool only = name.starts_with(kOnlyPrefix);
  if (model == nullptr && !only) return "";
  const std::string about =
      only ? "(control): the same model, of features this stream's alone, at the times of all"
      : per_frame && model->about_frames != nullptr ? model->about_frames
                                                    : model->about;
  const bool adds = covariates && (only || model->names_covariates);
  return concat(about.starts_with('(') ? " " : ": ", about, adds ? ", and covariates" : "");
}

const WordTable<FrameOrder>& single_frames() {
  static const WordTable<FrameOrder> table{
      {"first", FrameOrder::kFirst}, {"middle", FrameOrder::kMiddle}, {"last", FrameOrder::kLast}};
  return table;
}

}  // namespace coldframe::temporal

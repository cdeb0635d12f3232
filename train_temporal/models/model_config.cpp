#include "train_temporal/models/model_config.h"

#include <array>

#include "common/cli/cli.h"
#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe::temporal {
namespace {

const WordTable<ModelKind> kArchitectures{{"gru", ModelKind::kGru},
                                          {"mean", ModelKind::kMean},
                                          {"clock", ModelKind::kClock},
                                          {"lstm", ModelKind::kLstm},
                                          {"attention", ModelKind::kAttention},
                                          {"transformer", ModelKind::kTransformer},
                                          {"tcn", ModelKind::kTcn},
                                          {"covariates", ModelKind::kCovariates}};
const WordTable<FrameOrder> kOrders{{"in_order", FrameOrder::kInOrder},
                                    {"first", FrameOrder::kFirst},
                                    {"middle", FrameOrder::kMiddle},
                                    {"last", FrameOrder::kLast},
                                    {"shuffled", FrameOrder::kShuffled}};
const WordTable<TemporalPool> kPools{{"last", TemporalPool::kLast},
                                     {"mean", TemporalPool::kMean},
                                     {"attention", TemporalPool::kAttention},
                                     {"none", TemporalPool::kNone}};

constexpr std::int64_t kMostTcnLayers = 16;  // reach back 262140 frames
constexpr const char *kShuffled = "shuffled", *kBlank = "blank";

constexpr const char *kGated = "gated", *kSideBySide = "concat";

struct NamedModel {
  const char* name;
  ModelKind architecture;
  FrameOrder order;
};
// `bigru` is a GRU whose configuration is bidirectional.
constexpr std::array kModels = {
    NamedModel{"gru", ModelKind::kGru, FrameOrder::kInOrder},
    NamedModel{"bigru", ModelKind::kGru, FrameOrder::kInOrder},
    NamedModel{"lstm", ModelKind::kLstm, FrameOrder::kInOrder},
    NamedModel{"transformer", ModelKind::kTransformer, FrameOrder::kInOrder},
    NamedModel{"tcn", ModelKind::kTcn, FrameOrder::kInOrder},
    NamedModel{"attention", ModelKind::kAttention, FrameOrder::kInOrder},
    NamedModel{"mean", ModelKind::kMean, FrameOrder::kInOrder},
    NamedModel{kSingle, ModelKind::kMean, FrameOrder::kMiddle},
    NamedModel{kShuffled, ModelKind::kGru, FrameOrder::kShuffled},
    NamedModel{kBlank, ModelKind::kGru, FrameOrder::kInOrder},
    NamedModel{"clock", ModelKind::kClock, FrameOrder::kInOrder},
    NamedModel{kCovariatesAlone, ModelKind::kCovariates, FrameOrder::kInOrder},
};
constexpr const char* kBothWays = "bigru";

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

// ConfigError, which lists the streams, where there is no such one.
void see_only(ModelConfig& config, const std::string& name) {
  std::vector<std::string> names;
  for (const std::string& stream : config.streams) names.push_back(kOnlyPrefix + stream);
  config.only_stream = static_cast<std::int64_t>(choice("compare", name, names));
}

}  // namespace

std::string word_of(TemporalPool pool) {
  return word_for(kPools, pool);
}

Json to_json(const ModelConfig& config) {
  Json json;
  json["architecture"] = word_for(kArchitectures, config.architecture);
  json["frame_order"] = word_for(kOrders, config.order);
  if (config.blank) json["blank"] = true;
  json["dimension"] = config.dimension;
  if (config.covariates > 0) {
    json["covariates"] = config.covariates;
    json["covariates_at"] = config.frame_covariates ? "frames" : "head";
  }
  json["clock_width"] = config.clock_width;
  json["classes"] = config.classes;
  json["hidden"] = config.hidden;
  json["layers"] = config.layers;
  json["bidirectional"] = config.bidirectional;
  json["temporal_pool"] = word_of(config.pool);
  json["time"] = config.time;
  json["time_encoding"] = word_for(kTimeEncodings, config.time_encoding);
  json["dropout"] = config.dropout;
  json["linear"] = config.linear;
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
    config.architecture = pick("architecture", kArchitectures);
    config.order = pick("frame_order", kOrders);
    config.blank = json.value("blank", false);
    config.dimension = bounded("dimension", 1, 1 << 20);
    if (json.contains("covariates")) {
      config.covariates = bounded("covariates", 1, 1 << 16);
      config.frame_covariates = json.at("covariates_at").get<std::string>() == "frames";
      if (config.frame_covariates) bounded("dimension", config.covariates + 1, 1 << 20);
    }
    config.clock_width = bounded("clock_width", 0, 1 << 12);
    config.classes = bounded("classes", 1, 1 << 16);
    config.hidden = bounded("hidden", 1, 1 << 16);
    const bool tcn = config.architecture == ModelKind::kTcn;
    config.layers = bounded("layers", 1, tcn ? kMostTcnLayers : 64);
    config.bidirectional = json.at("bidirectional").get<bool>();
    config.pool = pick("temporal_pool", kPools);
    config.time = json.at("time").get<bool>();
    config.time_encoding = pick("time_encoding", kTimeEncodings);
    config.dropout = json.at("dropout").get<double>();
    config.linear = json.value("linear", true);
    if (json.contains("streams")) read_streams(json, config);
    const std::string name = model_name(config);  // DataError when there is none
    if (config.architecture == ModelKind::kTransformer && config.hidden % 2 != 0) {
      throw DataError(concat("model configuration: a transformer of width ", config.hidden,
                             ", which is odd; the file is damaged or not a Coldframe model"));
    }
    const bool beyond = reads_in_order(config.architecture) && !is_recurrent(config.architecture);
    const bool decays = config.time_encoding == TimeEncoding::kDecay &&
                        reads_in_order(config.architecture) &&
                        (config.architecture != ModelKind::kGru || config.bidirectional);
    if ((beyond && config.bidirectional) || decays)
      throw DataError(concat("model configuration: ", name, " with ",
                             decays ? "time_encoding decay" : "bidirectional true",
                             ", which it cannot have; the file is damaged or not a Coldframe "
                             "model"));
    if (config.per_frame() &&
        (is_one_frame(config.order) || config.architecture == ModelKind::kAttention)) {
      throw DataError(concat("model configuration: ", name,
                             " with temporal_pool none, which wants an output per frame; the file "
                             "is damaged or not a Coldframe model"));
    }
    return config;
  } catch (const Json::exception& error) {
    throw DataError(concat("model configuration: ", error.what()));
  }
}

const std::vector<std::string>& model_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const NamedModel& model : kModels) all.emplace_back(model.name);
    return all;
  }();
  return names;
}

const std::vector<std::string>& comparison_names() {
  static const std::vector<std::string> names = {"gru",      "mean",  "single",
                                                 "shuffled", "blank", "clock"};
  return names;
}

bool is_twin(const std::string& name) {
  return name == kShuffled || name == kBlank || name.starts_with(kOnlyPrefix);
}

void set_model(ModelConfig& config, const std::string& name) {
  if (name.starts_with(kOnlyPrefix)) return see_only(config, name);
  const NamedModel& model = kModels[choice("model", name, model_names())];
  config.blank = name == kBlank;
  if (name == kShuffled ? reads_in_order(config.architecture)
                        : config.blank && config.architecture != ModelKind::kClock &&
                              config.architecture != ModelKind::kCovariates) {
    if (name == kShuffled) config.order = model.order;
    return;
  }
  config.architecture = model.architecture;
  config.order = model.order;
  if (name == kBothWays) config.bidirectional = true;
  // Per frame `single` is every frame by itself.
  if (config.per_frame() && is_one_frame(config.order)) config.order = FrameOrder::kInOrder;
}

std::string model_name(const ModelConfig& config) {
  if (config.only_stream >= 0)
    return kOnlyPrefix + config.streams[static_cast<std::size_t>(config.only_stream)];
  if (config.blank) return kBlank;
  if (reads_in_order(config.architecture) && config.order == FrameOrder::kShuffled)
    return kShuffled;
  const bool one_by_one = config.per_frame() && config.architecture == ModelKind::kMean &&
                          config.order == FrameOrder::kInOrder;
  const bool one_frame = config.architecture == ModelKind::kMean && is_one_frame(config.order);
  if (one_by_one || one_frame) return kSingle;
  for (const NamedModel& model : kModels) {
    if (model.architecture != config.architecture || model.order != config.order) continue;
    const bool gru = config.architecture == ModelKind::kGru;
    return gru && config.bidirectional && config.order == FrameOrder::kInOrder ? kBothWays
                                                                               : model.name;
  }
  throw DataError("model configuration: no model has this architecture and order of frames");
}

const WordTable<FrameOrder>& single_frames() {
  static const WordTable<FrameOrder> table{
      {"first", FrameOrder::kFirst}, {"middle", FrameOrder::kMiddle}, {"last", FrameOrder::kLast}};
  return table;
}

}  // namespace coldframe::temporal

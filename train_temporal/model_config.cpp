#include "train_temporal/model_config.h"

#include <algorithm>
#include <array>
#include <utility>

#include "common/cli.h"
#include "common/error.h"
#include "common/text.h"

namespace coldframe::temporal {
namespace {

const std::vector<std::string> kArchitectures = {"gru", "mean", "clock"};
const std::vector<std::string> kOrders = {"in_order", "middle", "shuffled"};
const std::vector<std::string> kPools = {"last", "mean", "attention"};

// In the order of model_names().
constexpr std::array kModels = {
    std::pair{Architecture::kGru, FrameOrder::kInOrder},
    std::pair{Architecture::kMean, FrameOrder::kInOrder},
    std::pair{Architecture::kMean, FrameOrder::kMiddle},
    std::pair{Architecture::kGru, FrameOrder::kShuffled},
    std::pair{Architecture::kClock, FrameOrder::kInOrder},
};

template <typename Enum>
const std::string& word(const std::vector<std::string>& words, Enum value) {
  return words[static_cast<std::size_t>(value)];
}

}  // namespace

Json to_json(const ModelConfig& config) {
  Json json;
  json["architecture"] = word(kArchitectures, config.architecture);
  json["frame_order"] = word(kOrders, config.order);
  json["dimension"] = config.dimension;
  json["clock_width"] = config.clock_width;
  json["classes"] = config.classes;
  json["hidden"] = config.hidden;
  json["layers"] = config.layers;
  json["bidirectional"] = config.bidirectional;
  json["temporal_pool"] = word(kPools, config.pool);
  json["time"] = config.time;
  json["dropout"] = config.dropout;
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
    const auto pick = [&](const char* key, const std::vector<std::string>& words) {
      const auto found = std::find(words.begin(), words.end(), json.at(key).get<std::string>());
      if (found != words.end()) return found - words.begin();
      throw DataError(concat("model configuration: ", key, " is ", json.at(key).dump(),
                             ", expected one of ", join(words, ", ")));
    };
    config.architecture = static_cast<Architecture>(pick("architecture", kArchitectures));
    config.order = static_cast<FrameOrder>(pick("frame_order", kOrders));
    config.dimension = bounded("dimension", 1, 1 << 20);
    config.clock_width = bounded("clock_width", 0, 1 << 12);
    config.classes = bounded("classes", 2, 1 << 16);
    config.hidden = bounded("hidden", 1, 1 << 16);
    config.layers = bounded("layers", 1, 64);
    config.bidirectional = json.at("bidirectional").get<bool>();
    config.pool = static_cast<TemporalPool>(pick("temporal_pool", kPools));
    config.time = json.at("time").get<bool>();
    config.dropout = json.at("dropout").get<double>();
    model_name(config);  // DataError when there is none
    return config;
  } catch (const Json::exception& error) {
    throw DataError(concat("model configuration: ", error.what()));
  }
}

const std::vector<std::string>& model_names() {
  static const std::vector<std::string> names = {"gru", "mean", "single", "shuffled", "clock"};
  return names;
}

void set_model(ModelConfig& config, const std::string& name) {
  const auto& [architecture, order] = kModels[choice("model", name, model_names())];
  config.architecture = architecture;
  config.order = order;
}

std::string model_name(const ModelConfig& config) {
  for (std::size_t i = 0; i < kModels.size(); ++i) {
    if (kModels[i] == std::pair{config.architecture, config.order}) return model_names()[i];
  }
  throw DataError("model configuration: no model has this architecture and order of frames");
}

}  // namespace coldframe::temporal

// All that is needed to build a model and to feed it; stored with its weights.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/json.h"
#include "train_temporal/sampler.h"

namespace coldframe::temporal {

enum class Architecture {
  kGru,    // frames → projection → GRU → pooling → head
  kMean,   // frames → projection → mean over frames → head; also `single`, on one frame
  kClock,  // no features: clock_descriptor() → MLP
};
enum class TemporalPool { kLast, kMean, kAttention };

struct ModelConfig {
  Architecture architecture = Architecture::kGru;
  FrameOrder order = FrameOrder::kInOrder;
  std::int64_t dimension = 0;    // D of the cache
  std::int64_t clock_width = 0;  // F of clock_descriptor()
  std::int64_t classes = 2;      // C
  std::int64_t hidden = 128;     // H
  std::int64_t layers = 1;
  bool bidirectional = false;
  TemporalPool pool = TemporalPool::kMean;
  bool time = false;  // whether the GRU sees intervals
  double dropout = 0.3;

  bool operator==(const ModelConfig&) const = default;
};
Json to_json(const ModelConfig& config);
ModelConfig model_config_from_json(const Json& json);  // DataError

// gru, mean, single, shuffled, clock: architecture and order of frames under one name.
const std::vector<std::string>& model_names();
void set_model(ModelConfig& config, const std::string& name);  // ConfigError
std::string model_name(const ModelConfig& config);

}  // namespace coldframe::temporal

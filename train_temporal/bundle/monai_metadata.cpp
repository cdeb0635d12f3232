#include "train_temporal/bundle/monai_metadata.h"

#include <torch/version.h>

#include <string>
#include <vector>

#include "common/text/text.h"
#include "train_temporal/bundle/model_card.h"

namespace coldframe::bundle {
namespace {

Json series(std::size_t channels, const Json& shape, const Json& names) {
  return {{"type", "series"},
          {"format", "sequence"},
          {"modality", "n/a"},
          {"num_channels", channels},
          {"spatial_shape", shape},
          {"dtype", "float32"},
          {"value_range", Json::array()},
          {"is_patch_data", false},
          {"channel_def", names}};
}

// The encoded covariates are the first model's: others may know other categories.
Json inputs_of(const Json& facts) {
  const std::size_t streams = facts.value("streams", Json::array()).size();
  const auto width = facts.at("dimension").get<std::size_t>();
  const char* of_one = "a frame's features, by the backbone of bundle.json";
  const char* of_several =
      "the features of every stream of bundle.json, NaN where it has no frame, and behind them 1 "
      "for each that has one";
  Json inputs;
  inputs["features"] = series(streams == 0 ? width : streams * (width + 1), {"*"},
                              {{"0", streams == 0 ? of_one : of_several}});
  if (!facts.contains("covariates")) return inputs;
  Json places = Json::object();
  for (const Json& name : facts.at("covariate_inputs")) places[concat(places.size())] = name;
  inputs["covariates"] = series(places.size(), Json::array(), places);
  return inputs;
}

Json output_of(const Json& target) {
  const bool classes = !target.at("classes").empty();
  Json channels = Json::object();
  for (const Json& name : target["classes"]) channels[concat(channels.size())] = name;
  if (!classes) channels["0"] = target.at("name");
  return {{"type", classes ? "probabilities" : "series"},
          {"format", classes ? "classes" : "magnitude"},
          {"modality", "n/a"},
          {"num_channels", channels.size()},
          {"spatial_shape", target.at("per_frame").get<bool>() ? Json({"*"}) : Json::array()},
          {"dtype", "float32"},
          {"value_range", classes ? Json({0, 1}) : Json::array()},
          {"is_patch_data", false},
          {"channel_def", channels}};
}

Json scores_of(const Json& metrics) {
  Json scores = Json::object();
  for (const Json& target : targets_of(metrics))
    for (const auto& [key, metric] : target.at("models").at(0).at("metrics").items())
      scores[concat(target.at("target").get<std::string>(), ": ", key)] =
          primary(metric).at("value");
  return scores;
}

}  // namespace

Json monai_metadata(const Json& facts, const Json& metrics) {
  Json outputs = Json::object();
  std::vector<std::string> names;
  for (const Json& target : facts.at("targets")) {
    names.push_back(target.at("name"));
    outputs[names.back()] = output_of(target);
  }
  return {{"schema",
           "https://github.com/Project-MONAI/MONAI-extra-test-data/releases/download/0.8.1/"
           "meta_schema_20240725.json"},
          {"version", "1.0.0"},
          {"changelog", {{"1.0.0", "made of a finished run"}}},
          {"monai_version", "1.6.1"},
          {"pytorch_version", TORCH_VERSION},
          {"numpy_version", "2.4.6"},
          {"optional_packages_version", {{"safetensors", "0.8.0"}}},
          {"required_packages_version", {{"safetensors", "0.8.0"}}},
          {"supported_apps", Json::object()},
          {"name", facts.at("name")},
          {"task", concat("prediction from sequences of frames: ", join(names, ", "))},
          {"description",
           "A frozen vision transformer's features of each frame, and temporal models "
           "of all folds, whose predictions are averaged; README.md says more."},
          {"authors", "not stated"},
          {"copyright", concat("licence: ", facts.at("license").get<std::string>())},
          {"intended_use", "research, not diagnosis"},
          {"eval_metrics", scores_of(metrics)},
          {"network_data_format", {{"inputs", inputs_of(facts)}, {"outputs", outputs}}}};
}

}  // namespace coldframe::bundle

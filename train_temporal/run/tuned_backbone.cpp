#include "train_temporal/run/tuned_backbone.h"

#include "common/files/fingerprint.h"
#include "common/files/publish/atomic_file.h"
#include "common/text/text.h"
#include "extract/plan/recipe.h"

namespace coldframe::temporal {
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

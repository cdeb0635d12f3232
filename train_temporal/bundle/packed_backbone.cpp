#include "train_temporal/bundle/packed_backbone.h"

#include "common/cli/error.h"
#include "common/files/fingerprint.h"
#include "common/files/publish/atomic_file.h"
#include "common/text/text.h"
#include "extract/plan/recipe.h"
#include "extract/vit/checkpoint/checkpoint.h"
#include "extract/vit/published/published.h"
#include "train_temporal/bundle/bundle.h"
#include "train_temporal/bundle/files/copy.h"
#include "train_temporal/run/tuned_backbone.h"

namespace coldframe::bundle {
namespace {

namespace fs = std::filesystem;

constexpr const char* kIndex = "model.safetensors.index.json";

void require_digest(const fs::path& weights, const std::string& found, const Json& backbone) {
  const std::string expected = backbone.at("sha256");
  if (found == expected) return;
  throw DataError(
      concat("weights '", weights.string(),
             "' are not those that the run's features were made with: their SHA-256 is ", found,
             ", expected ", expected, "; give the file that it was extracted with"));
}

// The file within `folder` that stands for the weights.
std::string copy_weights(const vit::WeightFiles& weights, const fs::path& folder) {
  if (weights.files.size() == 1) {
    const fs::path& file = weights.files.front();
    const std::string name = is_safetensors(file) ? "model.safetensors" : "pytorch_model.bin";
    copy_into(file, folder / name);
    return name;
  }
  Json index;
  for (const auto& [tensor, shard] : weights.shard_of)
    index["weight_map"][tensor] = shard.filename().string();
  for (const fs::path& shard : weights.files) copy_into(shard, folder / shard.filename());
  write_file_atomically(folder / kIndex, index.dump(2) + "\n");
  return kIndex;
}

void pack_vit(const Json& backbone, const fs::path& given, const fs::path& folder,
              PackedBackbone& packed) {
  const vit::WeightFiles weights = vit::find_weight_files(given);
  require_digest(given, vit::digest_of(weights), backbone);
  packed.facts["file"] = "backbone/" + copy_weights(weights, folder);
}

void pack_module(const Json& backbone, const fs::path& given, const fs::path& folder,
                 PackedBackbone& packed) {
  require_digest(given, sha256_file(given), backbone);
  const std::string name = "module" + given.extension().string();
  copy_into(given, folder / name);
  packed.facts["file"] = "backbone/" + name;
}

void pack_mask(const Json& features, const fs::path& given, const fs::path& folder,
               PackedBackbone& packed) {
  const bool wanted = features.at("preprocessing").contains("mask");
  if (wanted == given.empty())
    throw ConfigError(wanted ? "the run's frames were masked: give the same file with --mask"
                             : "the run's frames were not masked; leave out --mask");
  if (!wanted) return;
  const std::string name = "mask" + given.extension().string();
  copy_into(given, folder / name);
  packed.facts["mask"] = "backbone/" + name;
}

// timm's name of a published model of this architecture, but for what the options state besides and
// the weights show; "" if there is none.
std::string published_name(const Json& architecture) {
  const auto key = [](Json shape) {
    for (const char* stated : {"heads", "activation", "position_grid"}) shape.erase(stated);
    return canonical_json(shape);
  };
  for (const vit::Published& model : vit::published_models())
    if (key(vit::to_json(model.architecture)) == key(architecture)) return model.name;
  return "";
}

// The recipe as options, and the name that spares `extract` a guess.
std::string options_text(const temporal::ModelMetadata& card) {
  const cache::Recipe& recipe = card.recipe;
  const Json& backbone = recipe.features.at("backbone");
  std::string text = temporal::extract_options(recipe.features);
  if (backbone.contains("architecture"))
    if (const std::string name = published_name(backbone["architecture"]); !name.empty())
      text += concat("architecture = ", name, "\n");
  if (backbone.contains("seed")) text += concat("random-weights = ", backbone["seed"].dump(), "\n");
  text += extract::frame_options(recipe.storage);
  if (card.tuned) text += concat("cut = ", recipe.storage.at("cut").at("block").dump(), "\n");
  return text;
}

}  // namespace

void require_recipe_options(const std::string& text) {
  for (const std::string& line : split(text, '\n')) {
    const std::string key = trim(line.substr(0, line.find('=')));
    if (key.empty() || key.starts_with('#') || extract::is_recipe_option(key)) continue;
    throw DataError(concat("'", kOptionsFile, "': '", key,
                           "' is not an option of a recipe; the bundle was altered"));
  }
}

PackedBackbone pack_backbone(const temporal::ModelMetadata& card, const BackboneFiles& files,
                             const fs::path& folder) {
  if (card.recipe.features.contains(temporal::kRecipesOfStreams))
    throw ConfigError(
        "the run's streams were extracted by recipes of their own, and a bundle holds one; "
        "predict with --run and a cache of each stream");
  const Json& features = card.recipe.features;
  const Json& backbone = features.at("backbone");
  const std::string kind = backbone.at("kind");
  PackedBackbone packed{{{"kind", kind}}, options_text(card)};
  if ((kind == "random") != files.weights.empty())
    throw ConfigError(
        kind == "random"
            ? "the run's backbone has random weights; leave out --weights"
            : "--weights is missing: name the weights that the run was extracted with");
  if (kind == "vit") pack_vit(backbone, files.weights, folder, packed);
  if (kind != "vit" && kind != "random") pack_module(backbone, files.weights, folder, packed);
  pack_mask(features, files.mask, folder, packed);
  return packed;
}

}  // namespace coldframe::bundle

#include "train_temporal/bundle/raw_exams.h"

#include <algorithm>

#include "common/cli/error.h"
#include "common/cli/interrupt.h"
#include "common/cli/log.h"
#include "common/files/file.h"
#include "common/files/fingerprint.h"
#include "common/files/publish/atomic_file.h"
#include "common/text/text.h"
#include "common/torch/memory.h"
#include "extract/input/exam_list.h"
#include "extract/input/patients.h"
#include "extract/pipeline/devices.h"
#include "extract/pipeline/pipeline.h"
#include "extract/pipeline/recipe.h"
#include "extract/pipeline/resume.h"
#include "extract/vit/checkpoint/checkpoint.h"
#include "extract/vit/published/published.h"
#include "train_temporal/bundle/bundle.h"
#include "train_temporal/bundle/make.h"

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

// The recipe for people, and the name that spares `extract` a guess.
std::string options_text(const temporal::ModelMetadata& card) {
  const Json& backbone = card.recipe.features.at("backbone");
  std::string text = extract::recipe_lines(card.recipe);
  if (backbone.contains("architecture"))
    if (const std::string name = published_name(backbone["architecture"]); !name.empty())
      text += concat("architecture = ", name, "\n");
  if (card.tuned) text += concat("cut = ", card.recipe.storage.at("cut").at("block").dump(), "\n");
  return text;
}

}  // namespace

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
  if (card.tuned) packed.facts["cut"] = card.recipe.storage.at("cut").at("block");
  return packed;
}

namespace {

extract::ComputeDevices devices_for(const extract::ExtractOptions& options) {
  budget_device_memory(options.devices, options.batch.memory_budget);
  return {options.devices, options.threads};
}

}  // namespace

extract::ExtractOptions extract_options(const Bundle& bundle, extract::ExtractOptions asked) {
  const Json& backbone = bundle.facts().at("backbone");
  vit::BackboneOptions& named = asked.backbone;
  if (backbone.contains("file"))
    (backbone.at("kind") == "vit" ? named.weights : named.module) =
        bundle.file(backbone["file"].get<std::string>());
  if (backbone.contains("mask")) asked.mask = bundle.file(backbone["mask"].get<std::string>());
  if (backbone.contains("cut") && !asked.cut) asked.cut = backbone["cut"].get<std::int64_t>();
  const std::string column = bundle.facts().value("stream_column", "");
  auto& columns = asked.frame_columns;
  if (!column.empty() && std::ranges::find(columns, column) == columns.end())
    columns.push_back(column);
  return in_context(concat("bundle '", bundle.folder().string(), "'"),
                    [&] { return extract::follow_recipe(bundle.recipe(), asked); });
}

RawExams::RawExams(const Bundle& bundle, const extract::ExtractOptions& asked)
    : options_(extract_options(bundle, asked)), devices_(devices_for(options_)) {}

const std::filesystem::path& RawExams::extract() {
  frames::ExamList exams =
      extract::list_exams_salted(options_.input, extract::list_options(options_));
  for (const auto& warning : frames::shown_warnings(exams)) log_warning(warning);
  extract::load_backbones(devices_, options_, exams, nullptr, nullptr);
  const vit::Backbone& backbone = devices_.backbone();
  const extract::Plan plan =
      extract::plan_extraction(std::move(exams), {options_.selection, options_.reader}, nullptr);
  scratch_ = std::make_unique<ScratchFolder>();
  cache_ = scratch_->path() / "features.cache";
  cache::WriterOptions stored;
  stored.storage = options_.storage;
  stored.precision = to_string(backbone.precision());
  cache::ShardWriter writer(cache::locate(cache_), extract::make_recipe(options_, backbone),
                            backbone.dimension(), stored);
  const auto result = extract::run_pipeline(plan.extract, options_, devices_.all(), writer);
  if (result.stopped || stop_requested()) throw Interrupted("stopped; run the same command again");
  writer.finish();
  return cache_;
}

}  // namespace coldframe::bundle

#include "train_temporal/onnx/export.h"

#include "common/cli/error.h"
#include "common/files/publish/atomic_file.h"
#include "train_temporal/onnx/temporal_graph.h"
#include "train_temporal/onnx/vit_graph.h"
#include "train_temporal/tune/tuned_source.h"

namespace coldframe::onnx {
namespace {

namespace fs = std::filesystem;

struct File {
  std::string name;
  Graph graph;
  std::map<std::string, std::string> facts;
};

File vit_file(const std::string& name, const temporal::ModelMetadata& card,
              const fs::path& weights) {
  const Json& features = card.recipe.features;
  const tune::TunedSource source(features, card.tuned ? card.tuned->block : 0, weights,
                                 card.tuned ? card.tuned->weights_sha256 : "");
  vit::StateDictSource tensors(source.tensors());
  vit::VisionTransformer model(vit::Scope(tensors), source.architecture(), source.image_size(),
                               source.projected());
  return {name,
          vit_graph(*model, source.image_size(), source.features()),
          {{"preprocessing", features.at("preprocessing").dump()},
           {"backbone", features.at("backbone").dump()}}};
}

std::map<std::string, std::string> facts_of(const temporal::ModelMetadata& card) {
  Json targets = Json::array();
  for (std::size_t t = 0; t < card.targets.size(); ++t) {
    targets.push_back(to_json(card.targets[t]));
    targets.back()["threshold"] = card.readouts[t].threshold;
  }
  std::map<std::string, std::string> facts = {{"targets", targets.dump()},
                                              {"model", to_json(card.config).dump()},
                                              {"feature_digest", card.recipe.feature_digest()}};
  if (!card.covariates.empty()) facts["covariates"] = card.covariates.to_json().dump();
  return facts;
}

}  // namespace

std::vector<fs::path> export_models(const std::vector<temporal::TrainedModel>& models,
                                    const fs::path& weights, const fs::path& folder) {
  std::vector<File> files;
  for (const temporal::TrainedModel& trained : models) {
    const std::string stem = trained.file.stem().string();
    files.push_back({stem + ".onnx", temporal_graph(trained), facts_of(trained.card)});
    if (trained.card.tuned)
      files.push_back(
          vit_file(stem + ".vit.onnx", trained.card, temporal::backbone_folder(trained.file)));
  }
  if (!models.front().card.tuned)
    files.push_back(vit_file("vit.onnx", models.front().card, weights));
  create_folders_durably(folder);
  std::vector<fs::path> written;
  for (const File& file : files) {
    written.push_back(folder / file.name);
    file.graph.write(written.back(), file.facts);
  }
  return written;
}

}  // namespace coldframe::onnx

// Writes ONNX files for test_onnx.py: `run FOLDER OUT [WEIGHTS]`, the models of a run and their
// ViT; `family FOLDER OUT FAMILY PER_SECOND`, the same of summaries as if they had taken this
// family; `vit NAME POOL SIZE INSIDE OUT`, a published ViT with random weights of seed 0, with at
// most INSIDE bytes of constants in the file itself.
#include <iostream>

#include "extract/vit/published/published.h"
#include "extract/vit/random_weights.h"
#include "tests/support/driver.h"
#include "train_temporal/onnx/export.h"
#include "train_temporal/onnx/vit_graph.h"
#include "train_temporal/run/run_folder.h"

namespace coldframe::onnx {
namespace {

std::vector<temporal::TrainedModel> models_of(const std::string& run) {
  std::vector<temporal::TrainedModel> models;
  for (const auto& file : temporal::model_files(run)) models.push_back(temporal::read_model(file));
  return models;
}

void export_family(const std::vector<std::string>& words) {
  const auto models = models_of(words[1]);
  for (const temporal::TrainedModel& trained : models) {
    auto buffers = trained.model->named_buffers();
    buffers["family"].fill_(std::stoi(words[3]));
    buffers["per_second"].fill_(std::stoi(words[4]));
  }
  export_models(models, "", words[2]);
}

void export_run(const std::vector<std::string>& words) {
  const auto models = models_of(words[1]);
  for (const auto& file : export_models(models, words.size() > 3 ? words[3] : "", words[2]))
    std::cout << file.string() << "\n";
}

void export_vit(const std::vector<std::string>& words) {
  const vit::Architecture& architecture = vit::find_published(words[1]).architecture;
  vit::FeatureOptions features;
  features.pooling = vit::parse_pooling(words[2]);
  const ImageSize size = std::stol(words[3]);
  vit::RandomSource source(0);
  vit::VisionTransformer model(vit::Scope(source), architecture, size);
  vit_graph(*model, size, features).write(words[5], {}, std::stoul(words[4]));
}

int run(const std::vector<std::string>& words) {
  const std::string& verb = words.at(0);
  (verb == "run" ? export_run : verb == "family" ? export_family : export_vit)(words);
  return 0;
}

const testing::Driver kOnnxDriver{"onnx_driver", run};

}  // namespace
}  // namespace coldframe::onnx

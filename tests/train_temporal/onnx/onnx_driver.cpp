// Writes ONNX files for test_onnx.py: `run FOLDER OUT [WEIGHTS]`, the models of a run and their
// ViT; `vit NAME POOL SIZE INSIDE OUT`, a published ViT with random weights of seed 0, with at most
// INSIDE bytes of constants in the file itself.
#include <iostream>

#include "common/cli/cli.h"
#include "common/cli/error.h"
#include "extract/vit/published/published.h"
#include "extract/vit/random_weights.h"
#include "train_temporal/onnx/export.h"
#include "train_temporal/onnx/vit_graph.h"
#include "train_temporal/run/run_folder.h"

using namespace coldframe;

namespace {

void export_run(const std::vector<std::string>& words) {
  std::vector<temporal::TrainedModel> models;
  for (const auto& file : temporal::model_files(words[1]))
    models.push_back(temporal::read_model(file));
  for (const auto& file : onnx::export_models(models, words.size() > 3 ? words[3] : "", words[2]))
    std::cout << file.string() << "\n";
}

void export_vit(const std::vector<std::string>& words) {
  const vit::Architecture& architecture = vit::find_published(words[1]).architecture;
  vit::FeatureOptions features;
  features.pooling = vit::parse_pooling(words[2]);
  const ImageSize size = std::stol(words[3]);
  vit::RandomSource source(0);
  vit::VisionTransformer model(vit::Scope(source), architecture, size);
  onnx::vit_graph(*model, size, features).write(words[5], {}, std::stoul(words[4]));
}

}  // namespace

int main(int count, char** arguments) {
  const std::vector<std::string> words(arguments + 1, arguments + count);
  try {
    (words.front() == "run" ? export_run : export_vit)(words);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 3;
  }
}

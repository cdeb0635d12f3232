// A trained model as a safetensors file, whose metadata holds all that is needed to use it:
// configuration, targets with their readouts, and the recipe of its features.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cache/format/recipe.h"
#include "common/torch/safetensors.h"
#include "train_temporal/data/covariates.h"
#include "train_temporal/labels/target.h"
#include "train_temporal/models/sequence_model.h"

namespace coldframe::temporal {

struct ModelMetadata {
  ModelConfig config;
  cache::Recipe recipe;           // of the cache it was trained on
  std::vector<Target> targets;    // the head concatenates their outputs
  std::vector<Readout> readouts;  // of each target
  // Of the run's exams: kinds of source, which the `clock` control sees, and DICOM modalities
  // (empty: none or unknown).
  std::vector<std::string> source_kinds, modalities = {};
  std::size_t repeat = 0, fold = 0, seed = 0;
  std::uint64_t fit_seed = 0;  // seed of all random numbers of the fit
  // Number of present frames of the shortest and the longest exam it was fitted on; 0: unknown.
  std::size_t least_frames = 0, max_frames = 0;
  Arrangement arrangement = {};       // of the exams it reads
  CovariateEncoding covariates = {};  // learnt from its training part
  // Set if the ViT was trained with the model; its weights are in backbone_folder().
  struct Tuned {
    std::int64_t block = 0;      // index of the first trained block
    std::string weights_sha256;  // of the tuned weights, as in a recipe
  };
  std::optional<Tuned> tuned = {};
};
// The folder of a tuned model's ViT, for `extract --weights`; next to the model's file.
std::filesystem::path backbone_folder(const std::filesystem::path& model);

// The scores [n, Target::scores()] of one target, from outputs [n, C].
std::vector<double> scores_of(const ModelMetadata& card, std::size_t target,
                              const std::vector<double>& outputs);

// Parameters and buffers by name, copied to the CPU.
StateDict state_dict(const torch::nn::Module& module);

struct TrainedModel {
  ModelMetadata card;
  std::shared_ptr<SequenceModel> model;
  std::filesystem::path file = {};
};

void write_model(const std::filesystem::path& path, const StateDict& weights,
                 const ModelMetadata& card);
// DataError: not such a file, or a tensor (named) is missing, extra or of another shape.
TrainedModel read_model(const std::filesystem::path& path);

// Copies `weights` into the model; they must match its parameters and buffers exactly. DataError
// names `path` and the tensor that is missing, extra or of another shape.
void load_weights(const std::filesystem::path& path, SequenceModel& model,
                  const StateDict& weights);

}  // namespace coldframe::temporal

// The models of a run and the ViT of their features as ONNX files.
#pragma once

#include <filesystem>
#include <vector>

#include "train_temporal/models/model_file.h"

namespace coldframe::onnx {

// Writes into `folder`, which it creates: STEM.onnx for each model's file STEM.safetensors, and
// vit.onnx (of tuned models a STEM.vit.onnx each) with vit.onnx.data beside it where it is large.
// `weights`: those of the recipe's backbone, as `extract --weights` takes them; empty for random
// ones. Returns the files. ConfigError names what ONNX files cannot have, before any is written.
std::vector<std::filesystem::path> export_models(const std::vector<temporal::TrainedModel>& models,
                                                 const std::filesystem::path& weights,
                                                 const std::filesystem::path& folder);

}  // namespace coldframe::onnx

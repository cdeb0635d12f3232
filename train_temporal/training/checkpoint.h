// A fit leaves a checkpoint on disk while it runs, and a record when it is done. Both are
// safetensors files with the small things as JSON in their metadata.
#pragma once

#include <filesystem>
#include <vector>

#include "common/files/json.h"
#include "common/torch/safetensors.h"
#include "train_temporal/training/trainer.h"

namespace coldframe::temporal {

void write_checkpoint(const std::filesystem::path& path, const FitState& state);
FitState read_checkpoint(const std::filesystem::path& path);  // DataError

struct FitRecord {
  StateDict weights, tuned;  // of the model, and of what a tuned fit trained of the ViT
  std::uint64_t seed = 0;
  std::vector<EpochLosses> history;
  std::size_t best_epoch = 0;
  bool diverged = false;
  MicroBatches pieces;
  std::vector<double> validation_logits, test_logits;  // [n, C]
  std::vector<double> train_logits;                    // empty unless FitResult has them
  std::vector<double> families;  // of the model summary: its tensor of that name, [C]
};
void write_record(const std::filesystem::path& path, const FitResult& result, std::uint64_t seed);
FitRecord read_record(const std::filesystem::path& path);  // DataError

// Parameters and buffers by name, copied to the CPU.
StateDict state_dict(const torch::nn::Module& module);

}  // namespace coldframe::temporal

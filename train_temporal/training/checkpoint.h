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

void write_record(const std::filesystem::path& path, const FitRecord& record);
FitRecord read_record(const std::filesystem::path& path);  // DataError

}  // namespace coldframe::temporal

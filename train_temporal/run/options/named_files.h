// What the options name to be written, held against what they name to be read
// (common/files/publish/outputs.h).
#pragma once

#include "train_temporal/run/options/options.h"

namespace coldframe::temporal {

// ConfigError. Run folders and folders of evaluations judge themselves whether they may be
// replaced.
void check_named_files(const TrainOptions& options);
void check_named_files(const ApplyOptions& options, bool out_is_folder);

}  // namespace coldframe::temporal

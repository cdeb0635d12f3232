// Checks what the numbers on the command line may be, and which options exclude each other.
#pragma once

#include "train_temporal/run/options/options.h"

namespace coldframe::temporal {

// Both throw a ConfigError that names the option and what it expects.
void check_bounds(const TrainOptions& options);
void check_bounds(const ApplyOptions& options);

}  // namespace coldframe::temporal

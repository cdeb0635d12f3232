// `coldframe-train_temporal extract doctor`: what `coldframe doctor` cannot tell without LibTorch
// and readers.
#pragma once

#include <vector>

#include "common/system/checks.h"

namespace coldframe::extract {

// The CPU engine, CUDA where the driver sees a GPU, and the versions of libraries.
std::vector<Check> check_engines_and_libraries();

}  // namespace coldframe::extract

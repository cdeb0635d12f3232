// The threads of a process that take the fits of a run, one after another, beside other processes'.
#pragma once

#include <cstddef>
#include <vector>

#include "train_temporal/run/cross_validation.h"

namespace coldframe::temporal {

// Completes `fits`, as run_fits() says, and returns how many are: all, or fewer after a stop
// request. The first error of a fit stops all and is rethrown.
std::size_t work_on(const Experiment& experiment, const RunFolder& folder, const char* verb,
                    std::vector<FinishedFit>& fits);

}  // namespace coldframe::temporal

// `coldframe train` in several processes, as torchrun and srun start them.
#pragma once

#include <functional>

#include "common/files/json.h"
#include "common/processes/process_group.h"
#include "train_temporal/run/options/options.h"

namespace coldframe::temporal {

// Fills options.launch, joins the other processes if there are any, and calls body(group), with
// null when this process is alone. What body throws is told to the others.
int in_processes(TrainOptions& options, const std::function<int(ProcessGroup*)>& body);

// ConfigError when this process was given other options or data than rank 0.
void require_same_everywhere(ProcessGroup* group, const Json& config);

}  // namespace coldframe::temporal

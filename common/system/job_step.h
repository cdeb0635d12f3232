// Which of the processes that a launcher started together this one is, as torchrun and srun say it
// in the environment.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace coldframe {

using Environment = std::function<const char*(const char* name)>;  // null: not set
const char* from_environment(const char* name);                    // of this process

// A number that the environment must have. ConfigError; `with`: the variable that makes it needed.
std::int64_t environment_number(const Environment& environment, const char* name, const char* with);

struct JobStep {
  std::int64_t index = 0, count = 1;
  std::int64_t local_index = 0, local_count = 1;  // among those of this machine, where it is told
  std::string source = {};                        // the variable that tells the index

  bool several() const { return count > 1; }
};

// RANK and WORLD_SIZE, with LOCAL_RANK and LOCAL_WORLD_SIZE (docs.pytorch.org, "torchrun"); else
// within a job step SLURM_PROCID and SLURM_STEP_NUM_TASKS or SLURM_NTASKS, with SLURM_LOCALID
// (srun(1)); else one process. ConfigError names what is missing, is no number, or does not go
// together.
JobStep job_step(const Environment& environment);

}  // namespace coldframe

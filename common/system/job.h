// The part of a job that this process does, as a launcher, an array or an option states it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace coldframe {

// Which of the processes that a launcher started together this one is, as torchrun and srun say it
// in the environment.

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

// Which part of a job this process does, where several share it: as an option or a SLURM array
// says.

inline constexpr std::uint32_t kMaxParts = 9000;  // each has a worker's number in shards' names

struct Part {
  std::uint32_t index = 0, count = 1;  // index from 0
  std::string source = {};             // who says so: "--part", or variables' names
  bool shared() const { return !source.empty(); }
  std::string text() const;  // "part 3 of 8 (--part)"
};

// `option` is --part: "I/N" with I from 0 to N − 1, "off" for the whole, or "": then the
// environment says it. SLURM_ARRAY_TASK_ID with _MIN, _STEP and _COUNT of its kind, and the process
// of a job_step() (those of each array element share its part); Kubernetes' JOB_COMPLETION_INDEX
// does not say of how many. Nothing set: the whole. ConfigError names what is partly set, is no
// number, or does not go together, such as one --part for several tasks.
Part choose_part(const std::string& option, const Environment& environment);

}  // namespace coldframe

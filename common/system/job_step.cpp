#include "common/system/job_step.h"

#include <algorithm>
#include <cstdlib>

#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe {
namespace {

JobStep step_of(const Environment& environment, const char* index, const char* count) {
  JobStep step;
  step.source = index;
  step.index = environment_number(environment, index, count);
  step.count = environment_number(environment, count, index);
  if (step.index >= step.count)
    throw ConfigError(
        concat(index, "=", step.index, " of ", count, "=", step.count, ": no such process"));
  return step;
}

}  // namespace

const char* from_environment(const char* name) {
  return std::getenv(name);
}

std::int64_t environment_number(const Environment& environment, const char* name,
                                const char* with) {
  const char* const text = environment(name);
  if (text == nullptr)
    throw ConfigError(concat("the environment is set in part: ", with, " is there and ", name,
                             " is not; set both, or neither for one process"));
  std::int64_t value = -1;
  if (!parse_int(text, value) || value < 0)
    throw ConfigError(concat(name, "='", text, "': expected a whole number, 0 or more"));
  return value;
}

JobStep job_step(const Environment& environment) {
  const auto has = [&](const char* name) { return environment(name) != nullptr; };
  if (has("RANK") || has("WORLD_SIZE")) {
    JobStep step = step_of(environment, "RANK", "WORLD_SIZE");
    if (has("LOCAL_RANK")) step.local_index = environment_number(environment, "LOCAL_RANK", "RANK");
    if (has("LOCAL_WORLD_SIZE"))
      step.local_count =
          std::max<std::int64_t>(1, environment_number(environment, "LOCAL_WORLD_SIZE", "RANK"));
    return step;
  }
  // A batch script has SLURM_PROCID, too; only srun's processes have a step's number.
  if (!has("SLURM_STEP_ID") || !has("SLURM_PROCID")) return {};
  // The step's own number of tasks, where it is told: that of the job may be another.
  const char* const tasks = has("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  JobStep step = step_of(environment, "SLURM_PROCID", tasks);
  if (has("SLURM_LOCALID"))
    step.local_index = environment_number(environment, "SLURM_LOCALID", "SLURM_PROCID");
  return step;
}

}  // namespace coldframe

#include "common/system/job.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

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

namespace {

Part part_of_text(const std::string& text) {
  const std::vector<std::string> words = split(text, '/');
  std::int64_t index = -1, count = 0;
  if (words.size() != 2 || !parse_int(words[0], index) || !parse_int(words[1], count) ||
      index < 0 || index >= count || count > kMaxParts)
    throw ConfigError(concat("--part '", text, "': expected I/N, part I of N parts, with I from 0 ",
                             "to N − 1 and N up to ", kMaxParts, ", or off"));
  return {static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(count), "--part"};
}

struct ArrayTask {
  std::int64_t index = 0, count = 1;
};

ArrayTask array_task(const Environment& environment) {
  constexpr const char* kTask = "SLURM_ARRAY_TASK_ID";
  if (environment(kTask) == nullptr) return {};
  const auto number = [&](const char* name) {
    return environment_number(environment, name, kTask);
  };
  const std::int64_t task = number(kTask);
  const std::int64_t first = number("SLURM_ARRAY_TASK_MIN");
  const std::int64_t last = number("SLURM_ARRAY_TASK_MAX");
  const std::int64_t step = number("SLURM_ARRAY_TASK_STEP");
  const std::int64_t count = number("SLURM_ARRAY_TASK_COUNT");
  const bool even = step > 0 && count > 0 && (last - first) / step + 1 == count && task >= first &&
                    task <= last && (task - first) % step == 0;
  if (!even)
    throw ConfigError(
        concat("the array's tasks (", count, " from ", first, " to ", last,
               ") leave some out, so that parts cannot be computed from them; give --part "
               "$SLURM_ARRAY_TASK_ID/N with the N of the first submission"));
  return {(task - first) / step, count};
}

Part part_of_environment(const Environment& environment, const JobStep& step) {
  const ArrayTask array = array_task(environment);
  if (array.count > kMaxParts || step.count > kMaxParts || array.count * step.count > kMaxParts)
    throw ConfigError(concat("the environment makes ", array.count, " times ", step.count,
                             " parts; at most ", kMaxParts, " are possible, so give --part I/N"));
  const std::int64_t count = array.count * step.count;
  if (environment("JOB_COMPLETION_INDEX") != nullptr && count == 1)
    throw ConfigError(
        "JOB_COMPLETION_INDEX is set, which does not say of how many; give --part "
        "$JOB_COMPLETION_INDEX/N with the job's completions as N, or --part off for the whole");
  if (count == 1) return {};
  std::vector<std::string> sources;
  if (array.count > 1) sources.emplace_back("SLURM_ARRAY_TASK_ID");
  if (step.several()) sources.push_back(step.source);
  return {static_cast<std::uint32_t>(array.index * step.count + step.index),
          static_cast<std::uint32_t>(count), join(sources, " and ")};
}

}  // namespace

Part choose_part(const std::string& option, const Environment& environment) {
  if (option == "off") return {};
  const JobStep step = job_step(environment);
  if (option.empty()) return part_of_environment(environment, step);
  if (step.several())
    throw ConfigError(concat("--part ", option, " in a step of ", step.count, " tasks: each would ",
                             "do the same part; start it with --ntasks=1, or leave --part "
                             "out"));
  return part_of_text(option);
}

std::string Part::text() const {
  return concat("part ", index, " of ", count, " (", source, ")");
}

}  // namespace coldframe

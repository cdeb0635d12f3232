// Which part of a job this process does, where several share it: as an option or a SLURM array
// says.
#pragma once

#include <cstdint>
#include <string>

#include "common/system/job_step.h"

namespace coldframe {

inline constexpr std::uint32_t kMostParts = 9000;  // each has a worker's number in shards' names

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

// Which exams of a job this process extracts, where several share it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "cache/maintain/parts.h"
#include "common/system/job_step.h"
#include "extract/frames/input/exam_list.h"

namespace coldframe::extract {

struct Part {
  std::uint32_t index = 0, count = 1;  // index from 0
  std::string source = {};             // who says so: "--part", or variables' names
  bool shared() const { return !source.empty(); }
};

using cache::kMostParts;

// `option` is --part: "I/N" with I from 0 to N − 1, "off" for the whole, or "": then the
// environment says it. SLURM_ARRAY_TASK_ID with _MIN, _STEP and _COUNT of its kind, and the process
// of a job_step() (those of each array element share its part); Kubernetes' JOB_COMPLETION_INDEX
// does not say of how many. Nothing set: the whole. ConfigError names what is partly set, is no
// number, or does not go together, such as one --part for several tasks.
Part choose_part(const std::string& option, const Environment& environment);

// The part of each of these exams, each exam in just one, by `frames` of each (empty: alike), so
// that parts have about as many: exam after exam, the longest first, goes to the part that has the
// fewest (Graham 1969, longest processing time first). Without frames exam i goes to part i mod N.
std::vector<std::uint32_t> assign_parts(std::size_t exams, std::span<const std::uint64_t> frames,
                                        std::uint32_t count);

// The frames of each exam as `extract --dry-run --json` told; exams that it does not name count as
// the mean of the others. DataError: the file is no such survey, or names none of the exams.
std::vector<std::uint64_t> surveyed_frames(const std::filesystem::path& survey,
                                           const frames::ExamList& input);

}  // namespace coldframe::extract

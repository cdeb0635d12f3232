// Which exams each part of a job extracts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "common/system/job_part.h"
#include "extract/frames/input/exam_list.h"

namespace coldframe::extract {

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

// Which exams each part of a job extracts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "cache/format/layout.h"
#include "cache/store/parts.h"
#include "common/system/job.h"
#include "extract/input/exam_list.h"
#include "extract/options.h"

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

// The part of a job that this process has, from its options and environment, and its record in the
// cache.

// ConfigError for what does not go with parts.
Part part_of_job(const ExtractOptions& options, const cache::Location& location);

// The exams of a part, and its record in the cache while it works.
class TakenPart {
 public:
  // Leaves a record that it has begun. Nothing to do for the whole.
  TakenPart(const Part& part, const ExtractOptions& options, const frames::ExamList& input,
            const cache::Location& location);

  // For each exam, whether the part has it; empty for the whole.
  const std::vector<bool>& mine() const { return mine_; }
  void finished();  // all its exams are stored, or have failed

 private:
  bool shared_;
  cache::Location location_;
  cache::PartRecord record_;
  std::vector<bool> mine_;
};

}  // namespace coldframe::extract

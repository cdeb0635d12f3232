// The part of a job that this process does: its exams and what all parts agree on.
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

// Assigns exams to the parts of a job.

// Assigns each exam to one part, balancing `frames`: longest first to the least loaded part (LPT,
// Graham 1969). With empty `frames`, exam i goes to part i mod N.
std::vector<std::uint32_t> assign_parts(std::size_t exams, std::span<const std::uint64_t> frames,
                                        std::uint32_t count);

// The frame count of each exam from the output of `extract --dry-run --json`; exams not in it count
// as the mean of the others. DataError: the file is no such survey, or names none of the exams.
std::vector<std::uint64_t> surveyed_frames(const std::filesystem::path& survey,
                                           const frames::ExamList& input);

// The part of a job that this process has, from its options and environment, and its record in the
// cache.

// ConfigError for options that are incompatible with parts.
Part part_of_job(const ExtractOptions& options, const cache::Location& location);

// The exams of a part, and its record in the cache while it works.
class TakenPart {
 public:
  // Records that the part has started. No-op for an undivided job.
  TakenPart(const Part& part, const ExtractOptions& options, const frames::ExamList& input,
            const cache::Location& location);

  // For each exam, whether it is in the part; empty for an undivided job.
  const std::vector<bool>& mine() const { return mine_; }
  void finished();  // all its exams are stored or failed

 private:
  bool shared_;
  cache::Location location_;
  cache::PartRecord record_;
  std::vector<bool> mine_;
};

}  // namespace coldframe::extract

// The part of a job that this process has, from its options and environment, and its record in the
// cache.
#pragma once

#include <vector>

#include "cache/format/layout.h"
#include "cache/store/parts.h"
#include "extract/options/options.h"
#include "extract/plan/part.h"

namespace coldframe::extract {

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

// The part of a job that this process has, from its options and environment, and its record in the
// cache.
#pragma once

#include <vector>

#include "cache/format/layout.h"
#include "extract/options/options.h"
#include "extract/plan/part.h"

namespace coldframe::extract {

// ConfigError for what does not go with parts.
Part part_of_job(const ExtractOptions& options, const cache::Location& location);

// Of each exam, whether the part has it; empty for the whole. Leaves a record of them beside the
// shards.
std::vector<bool> take_part(const Part& part, const ExtractOptions& options,
                            const frames::ExamList& input, const cache::Location& location);

}  // namespace coldframe::extract

// What the columns of a cache hold.
#pragma once

#include "cache/reader.h"
#include "common/json.h"

namespace coldframe::cache {

// [{name, type, values, missing, distinct, counts: [{value, exams}], min, max, mean}], the most
// frequent values first and at most `most_values` of them; min, max and mean for numbers.
Json describe_columns(const CacheReader& cache, std::size_t most_values);

}  // namespace coldframe::cache

// The verbs of coldframe-cache, and what they share.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "common/cli/verbs.h"
#include "common/files/json.h"
#include "common/text/table.h"

namespace coldframe::cache::tool {

extern const Command kCache;

inline constexpr const char* kOverwriteHelp = "replace files that are there";

void print_json(const Json& json);

void print_table(const TextRows& rows);

// Minimum, quartiles and so on of values (which are sorted for it); null when there are none.
using Fractions = std::vector<std::pair<const char*, double>>;
Json quantiles(std::vector<double> values, const Fractions& at);
// "0.12 to 3.40 s, median 1.00 s" of quantiles that have min, median and max; "unknown" of null.
std::string range_text(const Json& spread, int digits, const char* unit);

}  // namespace coldframe::cache::tool

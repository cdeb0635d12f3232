// `--cache`: one cache by its path, or one per stream as fa=PATH,icga=PATH.
#pragma once

#include <string>
#include <vector>

#include "train_temporal/data/sequence_reader.h"

namespace coldframe::temporal {

// Streams name files and folders of controls: letters, digits, -, _ and +, at least one.
bool names_stream(const std::string& name);

// One without a name for a path: whatever is there, and words in which no part is NAME=PATH. Else
// two or more, sorted by name. ConfigError: a name twice or alone, a cache twice, paths with and
// without names.
std::vector<NamedCache> named_caches(const std::string& words);

}  // namespace coldframe::temporal

// `--cache`: one cache by its path, or one per stream as fa=PATH,icga=PATH.
#pragma once

#include <string>
#include <vector>

#include "train_temporal/data/sequence_reader.h"

namespace coldframe::temporal {

// True for valid stream names, which become file and folder names of controls: one or more letters,
// digits, -, _ and +.
bool names_stream(const std::string& name);

// Returns one unnamed cache if `words` is an existing path or no part of it has the form NAME=PATH;
// else two or more, sorted by name. ConfigError: a repeated or single name, a repeated cache, or a
// mix of paths with and without names.
std::vector<NamedCache> named_caches(const std::string& words);

}  // namespace coldframe::temporal

// METHODS.md of a run: a description for the methods section of a paper, of what config.json and
// summary.json of the run say.
#pragma once

#include <string>

#include "common/files/json.h"

namespace coldframe::temporal {

// Markdown. `config` and `summary`: the run's config.json and summary.json. Names that come from
// data stand in code spans.
std::string methods_text(const Json& config, const Json& summary);

}  // namespace coldframe::temporal

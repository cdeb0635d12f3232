// METHODS.md of a run: a draft for the methods section of a paper, from the run's config.json and
// summary.json.
#pragma once

#include <string>

#include "common/files/json.h"

namespace coldframe::temporal {

// Markdown. `config` and `summary`: the run's config.json and summary.json. Names from the data are
// set as code spans.
std::string methods_text(const Json& config, const Json& summary);

}  // namespace coldframe::temporal

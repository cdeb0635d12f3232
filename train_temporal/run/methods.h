// METHODS.md of a run: a draft for the methods section of a paper, from the run's config.json and
// summary.json.
#pragma once

#include <string>

#include "common/files/json.h"

namespace coldframe::temporal {

// Of config.json, for people: numbers with six digits (a stored float of 0.875 is
// 0.8749999965820313), and precisions by their usual names.
Json readable(Json config);

// Markdown. `run` and `summary`: the run's config.json and summary.json. Names from the data are
// set as code spans.
std::string methods_text(const Json& run, const Json& summary);

}  // namespace coldframe::temporal

// README.md tells people and the Hugging Face hub about a bundle.
#pragma once

#include <string>

#include "common/files/json.h"

namespace coldframe::bundle {

// `facts`: bundle.json. `metrics`: metrics/summary.json. `more`: Markdown of the user's, "" for
// none: keys of its front matter and sections ("## Limits") go in the place of ours of that name,
// or behind them.
std::string model_card(const Json& facts, const Json& metrics, const std::string& more);

// The licence in the front matter of `more`, "" for none. ConfigError: it is not one word.
std::string stated_license(const std::string& more);

// The targets' entries of a summary, which has one alone at its top.
Json targets_of(const Json& metrics);
// The estimate of a metric that counts.
const Json& primary(const Json& metric);

}  // namespace coldframe::bundle

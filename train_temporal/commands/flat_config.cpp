#include "train_temporal/commands/flat_config.h"

#include <algorithm>

#include "common/text/text.h"

namespace coldframe::temporal {
namespace {

std::string cell_text(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  const auto is_word = [](const Json& one) { return one.is_string(); };
  if (!value.is_array() || !std::ranges::all_of(value, is_word)) return value.dump();
  return value.empty() ? "none" : join(value.get<std::vector<std::string>>(), ", ");
}

void flatten(const std::string& prefix, const Json& json, KeyValues& out) {
  for (const auto& [key, value] : json.items()) {
    if (value.is_object())
      flatten(prefix + key + ".", value, out);
    else
      out.emplace_back(prefix + key, cell_text(value));
  }
}

}  // namespace

KeyValues flat_config(Json config) {
  if (config.contains("search")) config["search"] = config["search"].size();
  KeyValues all;
  flatten("", config, all);
  return all;
}

}  // namespace coldframe::temporal

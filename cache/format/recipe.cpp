#include "cache/format/recipe.h"

#include "common/cli/error.h"
#include "common/files/fingerprint.h"
#include "common/text/text.h"

namespace coldframe::cache {
namespace {

void compare(const std::string& key, const Json* cached, const Json* now, const std::string& holder,
             std::vector<std::string>& lines) {
  const auto is_object = [](const Json* json) { return json != nullptr && json->is_object(); };
  const auto absent = [](const Json* json) { return json == nullptr; };
  if ((is_object(cached) && is_object(now)) ||
      (absent(cached) && is_object(now) && !now->empty()) ||
      (absent(now) && is_object(cached) && !cached->empty())) {
    const Json nothing = Json::object();
    const Json& before = cached == nullptr ? nothing : *cached;
    const Json& after = now == nullptr ? nothing : *now;
    const std::string prefix = key.empty() ? "" : key + ".";
    for (const auto& [name, value] : before.items())
      compare(prefix + name, &value, after.contains(name) ? &after[name] : nullptr, holder, lines);
    for (const auto& [name, value] : after.items())
      if (!before.contains(name)) compare(prefix + name, nullptr, &value, holder, lines);
    return;
  }
  if (cached != nullptr && now != nullptr && canonical_json(*cached) == canonical_json(*now))
    return;
  lines.push_back(concat(key, ": ", holder, " has ", cached == nullptr ? "nothing" : cached->dump(),
                         ", now ", now == nullptr ? "nothing" : now->dump()));
}

}  // namespace

std::string Recipe::feature_digest() const {
  return sha256_hex(canonical_json(features));
}

std::string Recipe::cache_digest() const {
  return sha256_hex(canonical_json(to_json(*this)));
}

std::vector<std::string> differences(const Json& cached, const Json& now,
                                     const std::string& holder) {
  std::vector<std::string> lines;
  compare("", &cached, &now, holder, lines);
  return lines;
}

std::vector<std::string> differences(const Recipe& cached, const Recipe& now) {
  std::vector<std::string> lines = differences(cached.features, now.features);
  const std::vector<std::string> storage = differences(cached.storage, now.storage);
  lines.insert(lines.end(), storage.begin(), storage.end());
  return lines;
}

Json to_json(const Recipe& recipe) {
  Json json = Json::object();
  json["features"] = recipe.features;
  json["storage"] = recipe.storage;
  return json;
}

Recipe recipe_from_json(const Json& json) {
  if (!json.is_object() || json.size() != 2 || !json.contains("features") ||
      !json.contains("storage") || !json["features"].is_object() || !json["storage"].is_object())
    throw CacheError("the recipe is not an object of \"features\" and \"storage\"");
  return {json["features"], json["storage"], Json::object()};
}

}  // namespace coldframe::cache

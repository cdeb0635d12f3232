#include "cache/format/recipe.h"

#include "common/cli/error.h"
#include "common/files/fingerprint.h"
#include "common/text/text.h"

namespace coldframe::cache {
namespace {

void compare(const std::string& key, const Json* a, const Json* b, const Sides& sides,
             std::vector<std::string>& lines) {
  const auto is_object = [](const Json* json) { return json != nullptr && json->is_object(); };
  const auto absent = [](const Json* json) { return json == nullptr; };
  if ((is_object(a) && is_object(b)) || (absent(a) && is_object(b) && !b->empty()) ||
      (absent(b) && is_object(a) && !a->empty())) {
    const Json nothing = Json::object();
    const Json& first = absent(a) ? nothing : *a;
    const Json& second = absent(b) ? nothing : *b;
    const std::string prefix = key.empty() ? "" : key + ".";
    for (const auto& [name, value] : first.items())
      compare(prefix + name, &value, second.contains(name) ? &second[name] : nullptr, sides, lines);
    for (const auto& [name, value] : second.items())
      if (!first.contains(name)) compare(prefix + name, nullptr, &value, sides, lines);
    return;
  }
  if (!absent(a) && !absent(b) && canonical_json(*a) == canonical_json(*b)) return;
  const auto text = [&](const Json* json) { return absent(json) ? "nothing" : json->dump(); };
  lines.push_back(difference(key, text(a), text(b), sides));
}

}  // namespace

void Recipe::leave_out(const std::string& key) {
  storage.erase(key);
  if (!notes.contains("options") || !notes["options"].is_string()) return;
  std::vector<std::string> lines = split(notes["options"].get<std::string>(), '\n');
  std::erase_if(lines, [&](const std::string& line) { return line.starts_with(key + " = "); });
  notes["options"] = join(lines, "\n");
}

std::string Recipe::feature_digest() const {
  return sha256_hex(canonical_json(features));
}

std::string Recipe::cache_digest() const {
  return sha256_hex(canonical_json(to_json(*this)));
}

std::string difference(const std::string& key, const std::string& a, const std::string& b,
                       const Sides& sides) {
  return concat(key, ": ", sides.a, " ", a, ", ", sides.b, " ", b);
}

std::vector<std::string> differences(const Json& a, const Json& b, const Sides& sides) {
  std::vector<std::string> lines;
  compare("", &a, &b, sides, lines);
  return lines;
}

std::vector<std::string> differences(const Recipe& a, const Recipe& b, const Sides& sides) {
  std::vector<std::string> lines = differences(a.features, b.features, sides);
  const std::vector<std::string> storage = differences(a.storage, b.storage, sides);
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

#include "cache/format/recipe.h"

#include <algorithm>

#include "cache/format/format.h"
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

std::string Recipe::note(const std::string& key) const {
  const Json text = notes.value(key, Json());
  return text.is_string() ? text.get<std::string>() : "";
}

void Recipe::leave_out(const std::string& key) {
  storage.erase(key);
  const std::string options = note("options");
  if (options.empty()) return;
  std::vector<std::string> lines = split(options, '\n');
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

namespace {

constexpr std::int64_t kMaxBlocks = 1 << 16, kLargestSide = 1 << 20;
constexpr std::uint64_t kMaxRow = 1ull << 30;

bool is_count(const Json& json, std::int64_t most) {
  return json.is_number_integer() && json >= 0 && json <= most;
}

// [N, D] before a block behind the first, [H, W, 3] before the first.
bool is_possible(const Cut& cut) {
  if (cut.shape.size() != (cut.is_pixels() ? 3 : 2)) return false;
  std::uint64_t bytes = sizeof(float);
  for (const std::int64_t size : cut.shape) {
    if (size < 1) return false;
    bytes *= static_cast<std::uint64_t>(size);
    if (bytes > kMaxRow) return false;
  }
  return !cut.is_pixels() || cut.shape.back() == 3;
}

}  // namespace

std::size_t Cut::row_bytes() const {
  std::size_t bytes = bytes_of(type());
  for (const std::int64_t size : shape) bytes *= static_cast<std::size_t>(size);
  return bytes;
}

std::vector<float> values_of(const Cut& cut, std::span<const std::byte> rows) {
  std::vector<float> values(rows.size() / bytes_of(cut.type()));
  convert(rows, cut.type(), std::span(values));
  return values;
}

Json to_json(const Cut& cut) {
  return {{"block", cut.block}, {"shape", cut.shape}};
}

std::optional<Cut> find_cut(const Recipe& recipe, DType storage) {
  if (!recipe.storage.contains(kCut)) return std::nullopt;
  const Json& json = recipe.storage[kCut];
  const bool has_form =
      json.is_object() && json.size() == 2 && json.contains("block") && json.contains("shape") &&
      is_count(json["block"], kMaxBlocks) && json["shape"].is_array() &&
      std::ranges::all_of(json["shape"], [](const Json& n) { return is_count(n, kLargestSide); });
  if (has_form) {
    const Cut cut{json["block"].get<std::int64_t>(), json["shape"].get<std::vector<std::int64_t>>(),
                  storage};
    if (is_possible(cut)) return cut;
  }
  throw CacheError(concat("the recipe has the cut ", json.dump().substr(0, 200),
                          ", expected a block and the shape of its tokens [N, D], or block 0 and "
                          "the shape of pixels [H, W, 3]"));
}

}  // namespace coldframe::cache

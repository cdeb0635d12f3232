#include "train_temporal/bundle/bundle.h"

#include <algorithm>
#include <span>

#include "common/cli/error_context.h"
#include "common/files/file.h"
#include "common/text/text.h"

namespace coldframe::bundle {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kLongestSums = 1 << 20;

struct Key {
  const char* place;
  Json::value_t kind;
  bool optional = false;
};

using Kind = Json::value_t;

constexpr Key kKeys[] = {{"/name", Kind::string},
                         {"/license", Kind::string},
                         {"/models", Kind::number_unsigned},
                         {"/feature_digest", Kind::string},
                         {"/targets", Kind::array},
                         {"/training/model", Kind::string},
                         {"/training/taken", Kind::object, true},
                         {"/training/coldframe", Kind::string},
                         {"/covariates", Kind::array, true},
                         {"/streams", Kind::array, true},
                         {"/stream_column", Kind::string, true},
                         {"/visits", Kind::string, true},
                         {"/backbone/kind", Kind::string},
                         {"/backbone/file", Kind::string, true},
                         {"/backbone/mask", Kind::string, true},
                         {"/recipe/features/backbone/kind", Kind::string}};

constexpr Key kTargetKeys[] = {{"/name", Kind::string},
                               {"/task", Kind::string},
                               {"/classes", Kind::array},
                               {"/threshold", Kind::number_float, true}};

// What readers take for granted, of `json` at `above`.
void require_keys(const Json& json, std::span<const Key> keys, const std::string& above = {}) {
  for (const Key& key : keys) {
    const Json::json_pointer place(key.place);
    if (json.contains(place) ? json.at(place).type() == key.kind : key.optional) continue;
    throw DataError(concat("'", kFactsFile, "' has no ", Json(key.kind).type_name(), " at ", above,
                           key.place, "; make the bundle anew with this version"));
  }
}

}  // namespace

Checksums checksums_in(const fs::path& folder) {
  if (!fs::exists(folder))
    throw ConfigError(concat("there is no '", folder.string(),
                             "'; expected the folder of `coldframe bundle make`"));
  if (!fs::is_regular_file(folder / kChecksumsFile))
    throw ConfigError(concat("'", folder.string(), "' is not a bundle: it holds no ",
                             kChecksumsFile, "; expected the folder of `coldframe bundle make`"));
  return in_context(concat("bundle '", folder.string(), "'"), [&] {
    return parse_checksums(read_text_file(folder / kChecksumsFile, kLongestSums));
  });
}

Bundle::Bundle(const fs::path& folder) : folder_(folder), sums_(checksums_in(folder)) {
  in_context(concat("bundle '", folder.string(), "'"), [&] {
    const auto faults = find_faults(folder, sums_.files);
    if (!faults.empty()) throw DataError(faults.front());
    facts_ = read_json_file(file(kFactsFile));
    const Json format = facts_.is_object() ? facts_.value("format", Json()) : Json();
    if (format != kFormat)
      throw DataError(
          concat("its format is ", format.dump(), ", and this version reads \"", kFormat, "\""));
    require_keys(facts_, kKeys);
    for (const Json& target : facts_["targets"]) require_keys(target, kTargetKeys, "/targets/…");
    recipe_ = cache::recipe_from_json(facts_.value("recipe", Json()));
  });
}

bool Bundle::has(std::string_view name) const {
  return std::ranges::any_of(files(), [&](const BundleFile& file) { return file.name == name; });
}

fs::path Bundle::file(std::string_view name) const {
  if (!has(name)) throw DataError(concat("it has no file '", name, "'"));
  return folder_ / name;
}

}  // namespace coldframe::bundle

#include "train_temporal/bundle/bundle.h"

#include <algorithm>
#include <span>

#include "common/cli/error_context.h"
#include "common/files/file.h"
#include "common/text/text.h"
#include "train_temporal/bundle/files/tar.h"

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
                         {"/training/coldframe", Kind::string},
                         {"/covariates", Kind::array, true},
                         {"/streams", Kind::array, true},
                         {"/stream_column", Kind::string, true},
                         {"/visits", Kind::string, true},
                         {"/backbone/kind", Kind::string},
                         {"/backbone/half", Kind::boolean, true},
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

OpenedFolder::OpenedFolder(const fs::path& path) : folder(path) {
  if (fs::is_regular_file(path)) {
    unpacked = std::make_unique<ScratchFolder>();
    unpack_tar(path, unpacked->path());
    folder = unpacked->path();
  }
  if (!fs::exists(folder))
    throw ConfigError(concat("there is no '", path.string(),
                             "'; expected the folder or tar of `coldframe bundle make`"));
  if (!fs::is_regular_file(folder / kChecksumsFile))
    throw ConfigError(concat("'", path.string(), "' is not a bundle: it holds no ", kChecksumsFile,
                             "; expected the folder or tar of `coldframe bundle make`"));
  sums = in_context(concat("bundle '", path.string(), "'"), [&] {
    return parse_checksums(read_text_file(folder / kChecksumsFile, kLongestSums));
  });
}

Bundle::Bundle(const fs::path& path) : path_(path), opened_(path) {
  in_context(concat("bundle '", path.string(), "'"), [&] {
    const auto faults = find_faults(folder(), opened_.sums.files);
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
  return folder() / name;
}

}  // namespace coldframe::bundle

#include "train_temporal/bundle/bundle.h"

#include <algorithm>

#include "common/cli/error_context.h"
#include "common/files/file.h"
#include "common/text/text.h"
#include "train_temporal/bundle/tar.h"

namespace coldframe::bundle {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kLongestSums = 1 << 20;

// What readers take for granted.
void require_keys(const Json& facts) {
  for (const char* place : {"/name", "/license", "/backbone/kind", "/training/model"})
    if (const Json::json_pointer pointer(place);
        !facts.contains(pointer) || !facts.at(pointer).is_string())
      throw DataError(concat("'", kFactsFile, "' has no text at ", place,
                             "; make the bundle anew with this version"));
}

}  // namespace

OpenedFolder::OpenedFolder(const fs::path& path) : folder(path) {
  if (fs::is_regular_file(path)) {
    unpacked = std::make_unique<ScratchFolder>();
    unpack_tar(path, unpacked->path());
    folder = unpacked->path();
  }
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
    const std::string format = facts_.value("format", "");
    if (format != kFormat)
      throw DataError(
          concat("its format is '", format, "', and this version reads '", kFormat, "'"));
    require_keys(facts_);
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

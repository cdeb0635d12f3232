#include "train_temporal/bundle/bundle.h"

#include <algorithm>
#include <span>

#include "common/cli/error.h"
#include "common/files/file.h"
#include "common/files/fingerprint.h"
#include "common/text/text.h"

namespace coldframe::bundle {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kDigits = 64;  // of a SHA-256
constexpr const char* kSeal = "# SHA-256 of the lines above: ";

// Names of files and of links. A link to a folder counts, too: readers would follow it to
// unverified files.
std::set<std::string> names_in(const fs::path& folder, bool dotted = false) {
  std::set<std::string> names;
  fs::recursive_directory_iterator entries(folder);
  for (auto entry = begin(entries); entry != end(entries); ++entry) {
    const std::string name = entry->path().lexically_relative(folder).generic_string();
    const bool hidden = name.starts_with('.');
    const bool is_folder = entry->is_directory() && !entry->is_symlink();
    if (is_folder && hidden) entry.disable_recursion_pending();
    if (hidden ? dotted : !is_folder && name != kChecksumsFile) names.insert(name);
  }
  return names;
}

// Where a file really lies when it, or a folder above it, is a link; "" when none is. The hub's
// cache keeps snapshots/REVISION/NAME as links to blobs/DIGEST, which are its files.
fs::path place_elsewhere(const fs::path& folder, const std::string& name, std::error_code& error) {
  const fs::path root = fs::canonical(folder), real = fs::canonical(folder / name, error);
  const bool inside =
      real == root / name || real.parent_path() == root.parent_path().parent_path() / "blobs";
  return inside ? fs::path() : real;
}

// True for the relative name of a file that lies in a bundle wherever that is: no root, no "." or
// "..", no dot at its beginning, no control character.
bool stays_inside(const std::string& name) {
  const fs::path path(name);
  return path.has_filename() && path.is_relative() && path.lexically_normal().native() == name &&
         !name.starts_with('.') && name.find('\\') == std::string::npos &&
         std::ranges::none_of(name, [](unsigned char c) { return c < ' '; });
}

BundleFile parse_line(const std::string& line) {
  if (line.size() > kDigits + 2 && line.compare(kDigits, 2, "  ") == 0 &&
      stays_inside(line.substr(kDigits + 2)))
    return {line.substr(kDigits + 2), line.substr(0, kDigits)};
  throw DataError(concat("'", kChecksumsFile, "': the line '", line,
                         "' is no checksum of a file in the bundle; it was damaged or altered"));
}

}  // namespace

std::string checksums_of(const fs::path& folder) {
  std::string lines;
  for (const std::string& name : names_in(folder))
    lines += concat(sha256_file(folder / name), "  ", name, "\n");
  return concat(lines, kSeal, sha256_hex(lines), "\n");
}

Checksums parse_checksums(const std::string& text) {
  Checksums sums;
  const std::size_t seal = text.rfind(kSeal);
  const std::string lines = text.substr(0, seal == std::string::npos ? 0 : seal);
  sums.digest = sha256_hex(lines);
  if (text != concat(lines, kSeal, sums.digest, "\n"))
    throw DataError(
        concat("'", kChecksumsFile, "' does not fit its own checksum: it was damaged or altered"));
  for (const std::string& line : split(lines, '\n'))
    if (!line.empty()) sums.files.push_back(parse_line(line));
  return sums;
}

std::set<std::string> strangers(const fs::path& folder, const std::vector<BundleFile>& files,
                                bool dotted) {
  std::set<std::string> names = names_in(folder, dotted);
  for (const BundleFile& file : files) names.erase(file.name);
  return names;
}

std::vector<std::string> find_faults(const fs::path& folder, std::vector<BundleFile>& files) {
  std::vector<std::string> faults;
  for (BundleFile& file : files) {
    std::error_code error;
    const fs::path elsewhere = place_elsewhere(folder, file.name, error);
    if (!error) file.bytes = fs::file_size(folder / file.name, error);
    if (error) {
      faults.push_back(concat("'", file.name, "' is missing"));
    } else if (!elsewhere.empty()) {
      faults.push_back(concat("'", file.name, "' is a link to '", elsewhere.string(),
                              "'; expected the file itself"));
    } else if (const std::string found = sha256_file(folder / file.name); found != file.sha256) {
      faults.push_back(concat("'", file.name, "' has SHA-256 ", found, ", expected ", file.sha256,
                              ": it was damaged or altered"));
    }
  }
  for (const std::string& name : strangers(folder, files, false))
    faults.push_back(concat("'", name, "' is not a file of the bundle; take it out"));
  return faults;
}

namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxSums = 1 << 20;

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
                         {"/backbone/license", Kind::string, true},
                         {"/backbone/mask", Kind::string, true},
                         {"/backbone/cut", Kind::number_unsigned, true},
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
    return parse_checksums(read_text_file(folder / kChecksumsFile, kMaxSums));
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

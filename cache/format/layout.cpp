#include "cache/format/layout.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <system_error>

#include "common/cli/error.h"
#include "common/files/file.h"
#include "common/files/retry_policy.h"
#include "common/text/text.h"

namespace coldframe::cache {
namespace {

namespace fs = std::filesystem;

constexpr int kWorkerDigits = 4, kNumberDigits = 6;
constexpr const char* kTemporarySuffix = ".tmp";  // of AtomicFile

constexpr const char *kRecordPrefix = ".part-", *kRecordSuffix = ".json",
                     *kAgreementName = ".agreement.json";

// Digits alone, and at least so many.
bool parse_digits(std::string_view text, std::size_t least, std::int64_t& number) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  return text.size() >= least && std::ranges::all_of(text, is_digit) && parse_int(text, number);
}

// Entries of the folder whose names start and end like this, sorted.
std::vector<fs::path> entries_like(const fs::path& folder, std::string_view start,
                                   std::string_view end) {
  std::vector<fs::path> found = entries_of(folder);
  std::erase_if(found, [&](const fs::path& entry) {
    const std::string name = entry.filename().string();
    return !name.starts_with(start) || !name.ends_with(end);
  });
  std::ranges::sort(found);
  return found;
}

void remove_like(const fs::path& folder, std::string_view start, std::string_view end) {
  std::error_code error;
  for (const fs::path& file : entries_like(folder, start, end)) fs::remove(file, error);
}

std::vector<fs::path> shards_in(const fs::path& folder) {
  std::vector<fs::path> shards = entries_of(folder);
  std::erase_if(shards,
                [](const fs::path& entry) { return !parse_shard_name(entry.filename().string()); });
  std::ranges::sort(shards, [](const fs::path& a, const fs::path& b) {
    return natural_less(a.string(), b.string());
  });
  return shards;
}

std::string lock_name(const std::string& holder) {
  return concat(".", holder, ".lock");
}

}  // namespace

fs::path Location::shard_folder() const {
  return single_file ? fs::path(path.string() + ".shards") : path;
}

std::vector<fs::path> Location::files() const {
  std::vector<fs::path> files;
  if (single_file && fs::exists(status_of(path))) files.push_back(path);
  const std::vector<fs::path> shards = shards_in(shard_folder());
  files.insert(files.end(), shards.begin(), shards.end());
  return files;
}

Location locate(const fs::path& path) {
  fs::path clean = path.lexically_normal();
  if (!clean.has_filename()) clean = clean.parent_path();  // "x.cache/" is "x.cache"
  if (clean.empty()) throw ConfigError("the path of a cache is empty");
  return {clean, clean.extension() == ".h5"};
}

void refuse_foreign_folder(const Location& location) {
  std::error_code error;
  const fs::path folder = location.shard_folder();
  if (location.single_file || !fs::is_directory(folder, error) || !location.files().empty()) return;
  for (const fs::path& entry : entries_of(folder)) {
    const std::string name = entry.filename().string();
    if (!name.starts_with('.'))  // locks, and what a killed process left
      throw CacheError(concat(folder.string(), ": the folder is no cache and holds other things, '",
                              name, "' for one; name a new folder, or a file x.h5"));
  }
}

void require_new(const Location& location) {
  if (!location.files().empty())
    throw ConfigError(concat(location.path.string(),
                             ": is there already; choose another name, or remove it first"));
  refuse_foreign_folder(location);
}

std::string shard_name(std::uint32_t worker, std::uint64_t number) {
  char name[64];
  std::snprintf(name, sizeof name, "shard-%0*u-%0*llu.h5", kWorkerDigits, worker, kNumberDigits,
                static_cast<unsigned long long>(number));
  return name;
}

std::optional<ShardNumber> parse_shard_name(const std::string& name) {
  const std::vector<std::string> words = split(name, '-');
  if (words.size() != 3 || words[0] != "shard" || !words[2].ends_with(".h5")) return std::nullopt;
  std::int64_t worker = 0, number = 0;
  if (!parse_digits(words[1], kWorkerDigits, worker) ||
      !parse_digits(words[2].substr(0, words[2].size() - 3), kNumberDigits, number) ||
      worker > std::numeric_limits<std::uint32_t>::max())
    return std::nullopt;
  return ShardNumber{static_cast<std::uint32_t>(worker), static_cast<std::uint64_t>(number)};
}

std::uint64_t next_shard_number(const Location& location, std::uint32_t worker) {
  std::uint64_t next = 0;
  for (const fs::path& shard : entries_of(location.shard_folder())) {
    const auto found = parse_shard_name(shard.filename().string());
    if (found && found->worker == worker) next = std::max(next, found->number + 1);
  }
  return next;
}

fs::path writer_lock_path(const Location& location, std::uint32_t worker) {
  return location.shard_folder() / lock_name(concat("writer-", worker));
}

std::vector<fs::path> writer_locks(const Location& location) {
  const std::string first = lock_name("writer-");  // ".writer-.lock", the worker in between
  const std::size_t head = first.find("-") + 1;
  return entries_like(location.shard_folder(), first.substr(0, head), first.substr(head));
}

fs::path pack_lock_path(const Location& location) {
  return location.shard_folder() / lock_name("pack");
}

fs::path part_record_path(const Location& location, std::uint32_t part, std::uint32_t parts) {
  return location.shard_folder() / concat(kRecordPrefix, part, "-of-", parts, kRecordSuffix);
}

std::vector<fs::path> part_record_paths(const Location& location) {
  return entries_like(location.shard_folder(), kRecordPrefix, kRecordSuffix);
}

fs::path agreement_path(const Location& location) {
  return location.shard_folder() / kAgreementName;
}

void remove_abandoned(const fs::path& path) {
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  remove_like(folder, concat(".", path.filename().string(), "."), kTemporarySuffix);
}

void remove_abandoned_shards(const Location& location, std::uint32_t worker) {
  const std::string first = shard_name(worker, 0);  // "shard-<worker>-" is common to them
  remove_like(location.shard_folder(), concat(".", first.substr(0, first.rfind('-') + 1)),
              kTemporarySuffix);
}

void remove_abandoned_shards(const Location& location) {
  for (const char* name : {"shard-", kRecordPrefix, kAgreementName})
    remove_like(location.shard_folder(), concat(".", name), kTemporarySuffix);
}

}  // namespace coldframe::cache

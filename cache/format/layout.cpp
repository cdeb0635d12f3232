#include "cache/format/layout.h"

#include <algorithm>
#include <cstdio>
#include <system_error>

#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe::cache {
namespace {

namespace fs = std::filesystem;

constexpr int kWorkerDigits = 4, kNumberDigits = 6;

bool all_digits(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::vector<fs::path> shards_in(const fs::path& folder) {
  std::vector<fs::path> shards;
  std::error_code error;
  if (!fs::is_directory(folder, error)) return shards;
  fs::directory_iterator entries(folder, error);
  if (error) throw CacheError(concat(folder.string(), ": cannot be listed: ", error.message()));
  for (const fs::directory_entry& entry : entries)
    if (is_shard_name(entry.path().filename().string())) shards.push_back(entry.path());
  std::sort(shards.begin(), shards.end(), [](const fs::path& a, const fs::path& b) {
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
  std::error_code error;
  if (single_file && fs::exists(path, error)) files.push_back(path);
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
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
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

bool is_shard_name(const std::string& name) {
  const std::vector<std::string> parts = split(name, '-');
  if (parts.size() != 3 || parts[0] != "shard" || !parts[2].ends_with(".h5")) return false;
  const std::string number = parts[2].substr(0, parts[2].size() - 3);
  return all_digits(parts[1]) && all_digits(number) && parts[1].size() >= kWorkerDigits &&
         number.size() >= kNumberDigits;
}

std::uint64_t next_shard_number(const Location& location, std::uint32_t worker) {
  std::uint64_t next = 0;
  for (const fs::path& shard : shards_in(location.shard_folder())) {
    const std::vector<std::string> parts = split(shard.filename().string(), '-');
    std::int64_t owner = 0, number = 0;
    if (parse_int(parts[1], owner) && owner == worker &&
        parse_int(parts[2].substr(0, parts[2].size() - 3), number))
      next = std::max(next, static_cast<std::uint64_t>(number) + 1);
  }
  return next;
}

fs::path writer_lock_path(const Location& location, std::uint32_t worker) {
  return location.shard_folder() / lock_name(concat("writer-", worker));
}

std::vector<fs::path> writer_locks(const Location& location) {
  const std::string first = lock_name("writer-");  // ".writer-.lock", the worker in between
  const std::size_t head = first.find("-") + 1;
  std::vector<fs::path> locks;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(location.shard_folder(), error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(first.substr(0, head)) && name.ends_with(first.substr(head)))
      locks.push_back(entry.path());
  }
  std::sort(locks.begin(), locks.end());
  return locks;
}

fs::path pack_lock_path(const Location& location) {
  return location.shard_folder() / lock_name("pack");
}

void remove_abandoned(const fs::path& path) {
  const std::string prefix = concat(".", path.filename().string(), ".");
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  std::error_code error;
  std::vector<fs::path> abandoned;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(prefix) && name.ends_with(".tmp")) abandoned.push_back(entry.path());
  }
  for (const fs::path& file : abandoned) fs::remove(file, error);
}

}  // namespace coldframe::cache

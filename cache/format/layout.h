// The place of a cache on disk; nothing else spells a shard's name.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace coldframe::cache {

// `x.cache` (or any path not ending in .h5) is a folder of shards. `x.h5` is one file; while it is
// being made or extended, its shards lie beside it in `x.h5.shards/`.
struct Location {
  std::filesystem::path path;
  bool single_file = false;

  std::filesystem::path shard_folder() const;
  // The single file if it exists, then the shards in order of their names. Empty: nothing there
  // yet.
  std::vector<std::filesystem::path> files() const;
};
Location locate(const std::filesystem::path& path);

// CacheError when the folder that shards would go to holds other things and no shard: a cache among
// somebody's files would be hard to tell from them and to remove.
void refuse_foreign_folder(const Location& location);

// ConfigError when a cache is there already; CacheError as refuse_foreign_folder.
void require_new(const Location& location);

// shard-<worker>-<number>.h5, both with leading zeros so that names sort.
std::string shard_name(std::uint32_t worker, std::uint64_t number);
bool is_shard_name(const std::string& name);
std::uint64_t next_shard_number(const Location& location, std::uint32_t worker);

// The shards that update_metadata makes; writers take smaller numbers.
inline constexpr std::uint32_t kMetadataWorker = 9999;

// `.writer-<worker>.lock` in the shard folder: held (flock) by the one writer of that worker.
// `.pack.lock`: held while shards are packed, replaced or removed. Both vanish with their holder;
// one that a killed process left behind is not locked and does no harm.
std::filesystem::path writer_lock_path(const Location& location, std::uint32_t worker);
std::vector<std::filesystem::path> writer_locks(const Location& location);  // those that are there
std::filesystem::path pack_lock_path(const Location& location);

// Removes what a killed process left of `path` while AtomicFile was writing it. Only under the lock
// that makes the caller its one writer.
void remove_abandoned(const std::filesystem::path& path);

}  // namespace coldframe::cache

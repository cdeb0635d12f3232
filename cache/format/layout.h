// The place of a cache on disk; nothing else spells the names of what lies in it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
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
struct ShardNumber {
  std::uint32_t worker = 0;
  std::uint64_t number = 0;
};
std::optional<ShardNumber> parse_shard_name(const std::string& name);  // nullopt: it is none
std::uint64_t next_shard_number(const Location& location, std::uint32_t worker);

// The shards that update_metadata makes; writers take smaller numbers.
inline constexpr std::uint32_t kMetadataWorker = 9999;

// `.writer-<worker>.lock` in the shard folder: held (flock) by the one writer of that worker.
// `.pack.lock`: held while shards are packed, replaced or removed. Both vanish with their holder;
// one that a killed process left behind is not locked and does no harm.
std::filesystem::path writer_lock_path(const Location& location, std::uint32_t worker);
std::vector<std::filesystem::path> writer_locks(const Location& location);  // those that are there
std::filesystem::path pack_lock_path(const Location& location);

// `.part-<part>-of-<parts>.json`: the record of one part of a job. `.agreement.json`: in what its
// parts compute.
std::filesystem::path part_record_path(const Location& location, std::uint32_t part,
                                       std::uint32_t parts);
std::vector<std::filesystem::path> part_record_paths(const Location& location);  // that are there
std::filesystem::path agreement_path(const Location& location);

// Removes what a killed process left of `path` while AtomicFile was writing it. Only under the lock
// that makes the caller its one writer.
void remove_abandoned(const std::filesystem::path& path);
// The same of a worker's shards.
void remove_abandoned_shards(const Location& location, std::uint32_t worker);
// The same of shards of any worker, records and the agreement. Only while none is at work.
void remove_abandoned_shards(const Location& location);

}  // namespace coldframe::cache

#include "cache/store/lock.h"

#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe::cache {

namespace {

constexpr const char* kAdvice =
    "; this file system is mounted without file locks (on Lustre the option is `flock`, on NFS "
    "`local_lock=none` with a lock service): write to a local folder and copy the cache when it is "
    "done, or have it mounted with them";

void require_usable(const Location& location) {
  namespace fs = std::filesystem;
  std::error_code error;
  const std::string name = location.path.string();
  if (location.single_file && fs::is_directory(location.path, error))
    throw CacheError(name +
                     ": a folder stands where the cache file should go; choose another "
                     "name, or one that does not end in .h5");
  if (!location.single_file && fs::exists(location.path, error) &&
      !fs::is_directory(location.path, error))
    throw CacheError(name +
                     ": a file stands where the cache folder should go; choose another "
                     "name (a single-file cache has a name that ends in .h5)");
}

WriterLock lock_of(const Location& location, std::uint32_t worker, bool shared, bool required) {
  require_usable(location);
  LockOptions options{shared, required, {}, kAdvice};
  options.refuse = [&location](const std::string& holder) {
    throw CacheError(concat(location.path.string(), " is already being written by ", holder,
                            "; wait for it to end, or write to another cache"));
  };
  return std::make_unique<FileLock>(writer_lock_path(location, worker), options);
}

}  // namespace

WriterLock lock_writer(const Location& location, std::uint32_t worker) {
  WriterLock lock = lock_of(location, worker, false, true);
  remove_abandoned_shards(location, worker);
  return lock;
}

WriterLock lock_where_possible(const Location& location) {
  return lock_of(location, 0, false, false);
}

WriterLock lock_part(const Location& location) {
  return lock_of(location, 0, true, false);
}

WriterLock lock_packer(const Location& location) {
  auto lock =
      std::make_unique<FileLock>(pack_lock_path(location), LockOptions{false, true, {}, kAdvice});
  remove_abandoned_shards(location, kMetadataWorker);
  if (location.single_file) remove_abandoned(location.path);
  return lock;
}

std::vector<std::string> writers_at_work(const Location& location) {
  std::vector<std::string> holders;
  for (const std::filesystem::path& lock : writer_locks(location))
    if (const std::string holder = holder_at_work(lock); !holder.empty()) holders.push_back(holder);
  return holders;
}

}  // namespace coldframe::cache

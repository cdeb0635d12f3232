// Who may write to a cache: a writer takes its lock before it looks at what is there, and keeps it
// until it has ended.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cache/format/layout.h"
#include "common/files/file_lock.h"

namespace coldframe::cache {

using WriterLock = std::unique_ptr<FileLock>;

// Takes the lock of the writer with this number; jobs and verbs that need the whole cache use 0.
// Creates the folder, and removes what a killed holder left half written. CacheError when another
// process holds the lock, or when something else than a cache stands there.
WriterLock lock_writer(const Location& location, std::uint32_t worker);
// Takes the lock of the whole cache. Null on file systems without locks, where parts of a job can
// be at work.
WriterLock lock_where_possible(const Location& location);
// Takes a lock for one of the parts that share a cache: nobody can take the whole cache meanwhile.
// Null where there are no locks.
WriterLock lock_part(const Location& location);

// Held while shards are packed, replaced or removed. Waits for it, and removes what a killed holder
// left.
WriterLock lock_packer(const Location& location);

// Lists the processes that are writing to the cache, each as "process 7 on host, for 42s".
std::vector<std::string> writers_at_work(const Location& location);

}  // namespace coldframe::cache

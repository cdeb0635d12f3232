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

// Of the one writer with this number; 0 is that of jobs and verbs that have the cache for
// themselves. Creates the folder, and removes what a killed holder left half written. CacheError
// when another process holds it, or when something else than a cache stands there.
WriterLock lock_writer(const Location& location, std::uint32_t worker);
// Of whoever has the cache for itself, but on file systems without locks, where parts of a job can
// be at work, none.
WriterLock lock_where_possible(const Location& location);
// Of one of the parts that share a cache: keeps out whoever has it for itself. None where there are
// no locks.
WriterLock lock_part(const Location& location);

// While shards are packed, replaced or removed. Waits, and removes likewise.
WriterLock lock_packer(const Location& location);

// Names those who write to the cache just now, each as "process 7 on host, for 42s".
std::vector<std::string> writers_at_work(const Location& location);

}  // namespace coldframe::cache

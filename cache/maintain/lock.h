// An exclusive lock between processes, held for as long as the object lives (flock on a file that
// says who holds it).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cache/format/layout.h"

namespace coldframe::cache {

// Names those who write to the cache just now, each as "process 7 on host, for 42s".
std::vector<std::string> writers_at_work(const Location& location);

class FileLock {
 public:
  enum class IfHeld { kWait, kRefuse };
  // Creates the folder. kRefuse: CacheError "<what> is held by process …".
  FileLock(std::filesystem::path path, IfHeld if_held, const std::string& what);
  ~FileLock();  // removes the file, and the folder when nothing else is in it
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace coldframe::cache

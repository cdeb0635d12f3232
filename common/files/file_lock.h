// A lock between processes, held for as long as the object lives (flock on a file that says who
// holds it).
#pragma once

#include <filesystem>
#include <functional>
#include <string>

namespace coldframe {

struct LockOptions {
  bool shared = false;   // beside others that share it, and nobody who holds it alone
  bool required = true;  // false: where a file system knows no locks, none is taken
  // Throws when another process holds it: "process 7 on host". Empty: it is waited for.
  std::function<void(const std::string& holder)> refuse = {};
  std::string advice = {};  // where nothing can be locked
};

// Another user's lock can be taken once he has left it, though his file stays where he alone may
// remove it.
class FileLock {
 public:
  // Creates the folder. SystemError where that or the lock cannot be made, which says why.
  FileLock(std::filesystem::path path, const LockOptions& options);
  // Removes the file, and the folder when nothing else is in it; one that is shared stays for those
  // who share it, and for who holds it alone after them.
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  std::filesystem::path path_;
  bool shared_;
  int descriptor_ = -1;
};

// The lock of a folder itself, which puts no file into it. It holds nothing where there is no such
// folder, where it cannot be locked, and, unless it `waits`, where another process has it.
class FolderLock {
 public:
  FolderLock(const std::filesystem::path& folder, bool waits);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  explicit operator bool() const { return descriptor_ >= 0; }
  int descriptor() const { return descriptor_; }  // of the folder

 private:
  int descriptor_;
};

// True for a file that FileLock has made.
bool is_lock_file(const std::filesystem::path& path);

// Who holds the lock alone: "process 7 on host, for 42s". "" when nobody does, and when it is gone.
std::string holder_at_work(const std::filesystem::path& path);

}  // namespace coldframe

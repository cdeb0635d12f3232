#include "cache/maintain/lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>

#include "common/cli/error.h"
#include "common/files/atomic_file.h"
#include "common/text/text.h"

namespace coldframe::cache {
namespace {

std::string holder_of(int descriptor) {
  char text[256];
  const ssize_t length = ::pread(descriptor, text, sizeof text, 0);
  return length > 0 ? std::string(text, static_cast<std::size_t>(length)) : "another process";
}

std::string this_process() {
  char host[128] = "";
  ::gethostname(host, sizeof host - 1);
  return concat("process ", ::getpid(), " on ", host);
}

// The holder removes the file when it is done: a lock on a file that is no longer at its path
// guards nothing.
bool still_at(const std::filesystem::path& path, int descriptor) {
  struct stat held {
  }, there{};
  return ::fstat(descriptor, &held) == 0 && ::stat(path.c_str(), &there) == 0 &&
         held.st_ino == there.st_ino && held.st_dev == there.st_dev;
}

// Advises on a file system on which nothing can be locked.
std::string lock_advice(int error) {
  const bool without_locks = error == ENOLCK || error == ENOSYS || error == EOPNOTSUPP;
  return without_locks
             ? "; this file system is mounted without file locks (on Lustre the option is "
               "`flock`, on NFS `local_lock=none` with a lock service): write to a local "
               "folder and copy the cache when it is done, or have it mounted with them"
             : "";
}

int open_lock(const std::filesystem::path& path) {
  create_folders_durably(path.parent_path());
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor < 0 && errno != ENOENT)
    throw SystemError(concat(path.string(), ": cannot be created: ", std::strerror(errno),
                             "; a cache needs a folder that you may write to"));
  return descriptor;  // -1: the folder vanished in between
}

// "" when nobody holds it, and when it is gone.
std::string holder_at_work(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return "";
  std::string holder;
  struct stat status {};
  if (::flock(descriptor, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK &&
      ::fstat(descriptor, &status) == 0)  // written once, when the holder began
    holder = concat(holder_of(descriptor), ", for ",
                    human_duration(std::difftime(std::time(nullptr), status.st_mtime)));
  ::close(descriptor);
  return holder;
}

}  // namespace

std::vector<std::string> writers_at_work(const Location& location) {
  std::vector<std::string> holders;
  for (const std::filesystem::path& lock : writer_locks(location))
    if (const std::string holder = holder_at_work(lock); !holder.empty()) holders.push_back(holder);
  return holders;
}

FileLock::FileLock(std::filesystem::path path, IfHeld if_held, const std::string& what)
    : path_(std::move(path)) {
  for (;;) {
    descriptor_ = open_lock(path_);
    if (descriptor_ < 0) continue;
    int result = 0;
    do {
      result = ::flock(descriptor_, LOCK_EX | (if_held == IfHeld::kRefuse ? LOCK_NB : 0));
    } while (result != 0 && errno == EINTR);
    const int reason = errno;
    if (result == 0 && still_at(path_, descriptor_)) break;
    const std::string holder = holder_of(descriptor_);
    ::close(descriptor_);
    if (result == 0) continue;
    if (reason == EWOULDBLOCK)
      throw CacheError(concat(what, " is already being written by ", holder,
                              "; wait for it to end, or write to another cache"));
    throw SystemError(
        concat(path_.string(), ": cannot be locked: ", std::strerror(reason), lock_advice(reason)));
  }
  const std::string holder = this_process();
  if (::ftruncate(descriptor_, 0) != 0 ||
      ::pwrite(descriptor_, holder.data(), holder.size(), 0) < 0) {
    // The text only serves another writer's message; on a full disk the lock itself still holds.
  }
}

FileLock::~FileLock() {
  ::unlink(path_.c_str());
  ::rmdir(path_.parent_path().c_str());  // refused by the system while anything is in it
  ::close(descriptor_);
}

}  // namespace coldframe::cache

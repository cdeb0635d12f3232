#include "common/files/locks/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>

#include "common/cli/error.h"
#include "common/files/publish/atomic_file.h"
#include "common/files/retry_policy.h"
#include "common/text/text.h"

namespace coldframe {
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

// Who held it alone removes the file: a lock on a file that is no longer at its path guards
// nothing.
bool still_at(const std::filesystem::path& path, int descriptor) {
  struct stat held {
  }, there{};
  return ::fstat(descriptor, &held) == 0 && ::stat(path.c_str(), &there) == 0 &&
         held.st_ino == there.st_ino && held.st_dev == there.st_dev;
}

bool is_without_locks(int error) {
  return error == ENOLCK || error == ENOSYS || error == EOPNOTSUPP;
}

int try_lock(int descriptor, int operation) {
  int result = 0;
  do {
    result = ::flock(descriptor, operation);
  } while (result != 0 && errno == EINTR);
  return result;
}

int open_lock(const std::filesystem::path& path) {
  create_folders_durably(path.parent_path());
  int descriptor = -1;
  for (RetryPolicy tries(path, RetryPolicy::Stop::kWaits); descriptor < 0;) {
    descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (descriptor >= 0 || errno == ENOENT) break;  // the folder vanished in between
    if (const int error = errno; !tries.again(error))
      throw SystemError(concat(path.string(), ": cannot be created: ", std::strerror(error),
                               "; choose a folder that you may write to"));
  }
  return descriptor;
}

}  // namespace

std::string holder_at_work(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return "";
  std::string holder;
  struct stat status {};
  if (try_lock(descriptor, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK &&
      ::fstat(descriptor, &status) == 0)  // written once, when the holder began
    holder = concat(holder_of(descriptor), ", for ",
                    human_duration(std::difftime(std::time(nullptr), status.st_mtime)));
  ::close(descriptor);
  return holder;
}

FileLock::FileLock(std::filesystem::path path, const LockOptions& options)
    : path_(std::move(path)), shared_(options.shared) {
  const int operation = options.shared ? LOCK_SH : LOCK_EX;
  for (;;) {
    descriptor_ = open_lock(path_);
    if (descriptor_ < 0) continue;
    const int result = try_lock(descriptor_, operation | (options.refuse ? LOCK_NB : 0));
    const int reason = errno;
    if (result == 0 && still_at(path_, descriptor_)) break;
    if (result != 0 && is_without_locks(reason) && !options.required) break;
    const std::string holder = holder_of(descriptor_);
    ::close(descriptor_);
    if (result == 0) continue;
    if (reason == EWOULDBLOCK) options.refuse(holder);
    throw SystemError(concat(path_.string(), ": cannot be locked: ", std::strerror(reason),
                             is_without_locks(reason) ? options.advice : ""));
  }
  const std::string holder = this_process();
  if (::ftruncate(descriptor_, 0) != 0 ||
      ::pwrite(descriptor_, holder.data(), holder.size(), 0) < 0) {
    // The text only serves another writer's message; on a full disk the lock itself still holds.
  }
}

FileLock::~FileLock() {
  if (!shared_ && still_at(path_, descriptor_)) {
    ::unlink(path_.c_str());
    ::rmdir(path_.parent_path().c_str());  // refused by the system while anything is in it
  }
  ::close(descriptor_);
}

}  // namespace coldframe

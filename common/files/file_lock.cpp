#include "common/files/file_lock.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <thread>

#include "common/cli/error.h"
#include "common/files/publish/atomic_file.h"
#include "common/files/retry_policy.h"
#include "common/text/text.h"

namespace coldframe {
namespace {

constexpr const char* kHolder = "process ";  // the text begins with it
constexpr int kMaxTries = 1000;              // a millisecond each

std::string text_in(int descriptor) {
  char text[256];
  const ssize_t length = ::pread(descriptor, text, sizeof text, 0);
  return std::string(text, static_cast<std::size_t>(std::max<ssize_t>(length, 0)));
}

std::string name_of(uid_t user) {
  const passwd* known = ::getpwuid(user);
  return known ? known->pw_name : concat(user);
}

// "process 7 on host", of another user with his name.
std::string holder_of(int descriptor) {
  const std::string text = text_in(descriptor);
  struct stat status {};
  const bool others = ::fstat(descriptor, &status) == 0 && status.st_uid != ::geteuid();
  return concat(text.empty() ? "another process" : text,
                others ? concat(" of user ", name_of(status.st_uid)) : "");
}

std::string this_process() {
  char host[128] = "";
  ::gethostname(host, sizeof host - 1);
  return concat(kHolder, ::getpid(), " on ", host);
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

std::string advice_on_theirs(uid_t user) {
  return concat("; a process of user ", name_of(user),
                " is writing there, or was killed: wait for it, or have that user remove the "
                "file when none is");
}

[[noreturn]] void refuse_to_open(const std::filesystem::path& path, int error) {
  struct stat status {};
  const bool is_there = ::lstat(path.c_str(), &status) == 0;
  std::string advice;
  if (is_there && S_ISLNK(status.st_mode))
    advice = "; it is a symbolic link where a lock should be: remove it";
  else if (is_there && error == EACCES)
    advice = advice_on_theirs(status.st_uid);
  else if (error == EACCES || error == EPERM || error == EROFS)
    advice = "; choose a folder that you may write to";
  else if (error == EMFILE || error == ENFILE)
    advice = "; raise the limit on open files (ulimit -n)";
  throw SystemError(concat(path.string(), ": cannot be ",
                           is_there ? "opened: " : "created: ", std::strerror(error), advice));
}

// Of another user's file reading is enough. Links are not followed: the lock would lie elsewhere.
int open_or_create(const std::filesystem::path& path) {
  constexpr int kAlways = O_CLOEXEC | O_NOFOLLOW;
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | kAlways, 0666);
  if (descriptor >= 0 || errno != EACCES) return descriptor;
  const int theirs = ::open(path.c_str(), O_RDONLY | kAlways);
  if (theirs < 0) errno = EACCES;
  return theirs;
}

// -1 where the folder vanished in between: its last lock's holder removes it.
int open_lock(const std::filesystem::path& path) {
  create_folders_durably(path.parent_path());
  for (RetryPolicy tries(path, RetryPolicy::Stop::kWaits);;) {
    const int descriptor = open_or_create(path);
    if (descriptor >= 0 || errno == ENOENT) return descriptor;
    if (const int error = errno; !tries.again(error)) refuse_to_open(path, error);
  }
}

bool may_write(int descriptor) {
  return (::fcntl(descriptor, F_GETFL) & O_ACCMODE) == O_RDWR;
}

// On NFS a lock that is held alone needs a file that may be written to (flock(2), EBADF).
[[noreturn]] void refuse_to_lock(const std::filesystem::path& path, int descriptor, int error,
                                 const std::string& without_locks) {
  struct stat status {};
  const bool is_theirs =
      error == EBADF && !may_write(descriptor) && ::fstat(descriptor, &status) == 0;
  ::close(descriptor);
  throw SystemError(concat(path.string(), ": cannot be locked: ",
                           is_theirs ? "it may not be written to" : std::strerror(error),
                           is_theirs                 ? advice_on_theirs(status.st_uid)
                           : is_without_locks(error) ? without_locks
                                                     : ""));
}

// Whatever the umask: another user has to read it to see that it is held.
void say_holder(int descriptor) {
  const std::string holder = this_process();
  struct stat status {};
  if (::fstat(descriptor, &status) == 0) ::fchmod(descriptor, (status.st_mode & 07777) | 0444);
  if (::ftruncate(descriptor, 0) != 0 ||
      ::pwrite(descriptor, holder.data(), holder.size(), 0) < 0) {
    // The text only serves another writer's message; on a full disk the lock itself still holds.
  }
}

// 0, or errno, which is EWOULDBLOCK where another process has it.
int lock_open(int descriptor, int operation) {
  while (::flock(descriptor, operation) != 0)
    if (errno != EINTR) return errno;
  return 0;
}

}  // namespace

bool is_lock_file(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (descriptor < 0) return false;
  const std::string text = text_in(descriptor);
  ::close(descriptor);
  return text.empty() || text.starts_with(kHolder);
}

std::string holder_at_work(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return "";
  std::string holder;
  struct stat status {};
  if (lock_open(descriptor, LOCK_SH | LOCK_NB) == EWOULDBLOCK &&
      ::fstat(descriptor, &status) == 0)  // written once, when the holder began
    holder = concat(holder_of(descriptor), ", for ",
                    human_duration(std::difftime(std::time(nullptr), status.st_mtime)));
  ::close(descriptor);
  return holder;
}

FileLock::FileLock(std::filesystem::path path, const LockOptions& options)
    : path_(std::move(path)), shared_(options.shared) {
  const int operation = (shared_ ? LOCK_SH : LOCK_EX) | (options.refuse ? LOCK_NB : 0);
  for (int tries = 0;; ++tries) {
    if (tries == kMaxTries)
      throw SystemError(concat(path_.string(), ": cannot be locked, since it vanishes each time"));
    if (tries > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    descriptor_ = open_lock(path_);
    if (descriptor_ < 0) continue;
    const int error = lock_open(descriptor_, operation);
    if (error != 0 && is_without_locks(error) && !options.required) break;
    const bool is_held = error == 0 && still_at(path_, descriptor_);
    // What another user left is removed where that is allowed, and made anew.
    const bool is_theirs = is_held && !shared_ && !may_write(descriptor_);
    if (is_held && !(is_theirs && ::unlink(path_.c_str()) == 0)) break;
    if (error != 0 && error != EWOULDBLOCK)
      refuse_to_lock(path_, descriptor_, error, options.advice);
    const std::string holder = holder_of(descriptor_);
    ::close(descriptor_);
    if (error == EWOULDBLOCK) options.refuse(holder);
  }
  if (may_write(descriptor_)) say_holder(descriptor_);
}

FileLock::~FileLock() {
  if (!shared_ && still_at(path_, descriptor_)) {
    ::unlink(path_.c_str());
    ::rmdir(path_.parent_path().c_str());  // refused by the system while anything is in it
  }
  ::close(descriptor_);
}

FolderLock::FolderLock(const std::filesystem::path& folder, bool waits)
    : descriptor_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) {
  if (descriptor_ < 0 || lock_open(descriptor_, LOCK_EX | (waits ? 0 : LOCK_NB)) == 0) return;
  ::close(descriptor_);
  descriptor_ = -1;
}

FolderLock::~FolderLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace coldframe

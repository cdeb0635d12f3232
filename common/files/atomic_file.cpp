#include "common/files/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <utility>

#include "common/cli/error.h"
#include "common/files/patience.h"
#include "common/text/text.h"

namespace coldframe {

namespace {

namespace fs = std::filesystem;

FileFaultHook fault_hook;
std::mutex fault_mutex;

int injected_fault(std::string_view name, const fs::path& path) {
  FileFaultHook hook;
  {
    const std::lock_guard lock(fault_mutex);
    hook = fault_hook;
  }
  return hook ? hook(name, path) : 0;
}

// Runs a system call that returns a negative number on failure, again when a signal cut it short.
template <typename Call>
auto attempt(int fault, const Call& call) -> decltype(call()) {
  if (fault > 0) {
    errno = fault;
    return -1;
  }
  decltype(call()) result;
  do {
    result = call();
  } while (result < 0 && errno == EINTR);
  return result;
}

std::string advice(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return "; free some space and run the same command again";
    case EFBIG:
      return "; raise the limit on file sizes (ulimit -f) and run the same command again";
    case EACCES:
    case EPERM:
    case EROFS:
      return "; choose a folder that you may write to";
    case ENOENT:
    case ENOTDIR:
      return "; its folder must exist";
    case EISDIR:
      return "; a folder stands where the file should go";
    default:
      return "";
  }
}

std::string message_of(std::string_view verb, const fs::path& path, int error) {
  return concat("cannot ", verb, " '", path.string(), "': ", std::strerror(error), advice(error));
}

[[noreturn]] void refuse(std::string_view verb, const fs::path& path, int error) {
  if (may_pass(error)) throw PassingError(message_of(verb, path, error), error);
  throw SystemError(message_of(verb, path, error));
}

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

// -1 with errno. Some network file systems do not sync folders and say EINVAL.
int try_sync(const fs::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return -1;
  const int result =
      attempt(injected_fault("fsync_folder", folder), [&] { return ::fsync(descriptor); });
  const int error = errno;
  ::close(descriptor);
  errno = error;
  return result < 0 && error != EINVAL ? -1 : 0;
}

// Makes the folder's own entries (a rename, a removal) survive a power cut. Tried again by itself:
// what it follows has been done, and is not to be done twice.
void sync_folder(const fs::path& path) {
  const fs::path folder = folder_of(path);
  for (Patience tries(folder, Patience::Stop::kWaits); try_sync(folder) < 0;)
    if (const int error = errno; !tries.again(error))
      throw SystemError(message_of("sync the folder of", path, error));
}

// The rename over a reserved name. One that fails takes the reservation away, which is no file that
// anybody can read. What is not empty there is ours: the rename was done and its answer lost.
int replace_reservation(const fs::path& temporary, int descriptor, const fs::path& path) {
  if (attempt(injected_fault("replace", path),
              [&] { return ::rename(temporary.c_str(), path.c_str()); }) >= 0)
    return 0;
  const int error = errno;
  struct stat ours = {}, there = {};
  int looked = 0;
  for (Patience tries(path, Patience::Stop::kWaits);
       (looked = ::stat(path.c_str(), &there)) < 0 && tries.again(errno);) {
  }
  const bool is_ours =
      there.st_size > 0 || (::fstat(descriptor, &ours) == 0 && there.st_ino == ours.st_ino);
  if (looked == 0 && is_ours) return 0;
  for (Patience tries(path, Patience::Stop::kWaits);
       looked == 0 && ::unlink(path.c_str()) < 0 && tries.again(errno);) {
  }
  errno = error;
  return -1;
}

fs::path temporary_name(const fs::path& path) {
  static std::atomic<unsigned> counter{0};
  return folder_of(path) /
         concat(".", path.filename().string(), ".", ::getpid(), "-", counter++, ".tmp");
}

}  // namespace

AtomicFile::AtomicFile(fs::path path) : path_(std::move(path)) {
  if (!path_.has_filename()) {
    throw SystemError(concat("cannot write '", path_.string(), "': it names no file"));
  }
  struct stat status = {};
  if (::stat(path_.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) {
    refuse("write", path_, EISDIR);
  }
  // The counter makes names unique in this process; a leftover of an earlier process that had the
  // same number is skipped.
  for (int tries = 0; descriptor_ < 0; ++tries) {
    temporary_ = temporary_name(path_);
    descriptor_ = attempt(injected_fault("open", temporary_), [&] {
      return ::open(temporary_.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0666);
    });
    if (descriptor_ < 0 && (errno != EEXIST || tries == 100)) refuse("write", path_, errno);
  }
}

AtomicFile::~AtomicFile() {
  abandon();
}

void AtomicFile::abandon() noexcept {
  if (descriptor_ < 0) return;
  ::close(std::exchange(descriptor_, -1));
  ::unlink(temporary_.c_str());
}

void AtomicFile::append(std::span<const std::byte> bytes) {
  write_at(size_, bytes);
}

void AtomicFile::append(std::string_view text) {
  append(std::as_bytes(std::span(text.data(), text.size())));
}

void AtomicFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const int fault = injected_fault("write", temporary_);
    const std::size_t size = fault == kShortWrite ? (bytes.size() + 1) / 2 : bytes.size();
    const ssize_t count = attempt(fault, [&] {
      return ::pwrite(descriptor_, bytes.data(), size, static_cast<off_t>(offset));
    });
    if (count <= 0) refuse("write", path_, count < 0 ? errno : EIO);
    offset += static_cast<std::uint64_t>(count);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    size_ = std::max(size_, offset);
  }
}

void AtomicFile::read_at(std::uint64_t offset, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t count = attempt(injected_fault("read", temporary_), [&] {
      return ::pread(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    });
    if (count < 0) refuse("read back", path_, errno);
    if (count == 0) break;
    offset += static_cast<std::uint64_t>(count);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  std::fill(bytes.begin(), bytes.end(), std::byte{0});
}

void AtomicFile::truncate(std::uint64_t size) {
  const int result = attempt(injected_fault("truncate", temporary_),
                             [&] { return ::ftruncate(descriptor_, static_cast<off_t>(size)); });
  if (result < 0) refuse("write", path_, errno);
  size_ = size;
}

void AtomicFile::sync() {
  if (attempt(injected_fault("fsync", temporary_), [&] { return ::fsync(descriptor_); }) >= 0)
    return;
  const int error = errno;
  abandon();
  refuse("write", path_, error);
}

void AtomicFile::finish() {
  sync();
  if (attempt(injected_fault("rename", path_),
              [&] { return ::rename(temporary_.c_str(), path_.c_str()); }) < 0) {
    const int error = errno;
    abandon();
    refuse("write", path_, error);
  }
  // The file stands under its own name from here on; nothing is left to abandon.
  ::close(std::exchange(descriptor_, -1));
  sync_folder(path_);
}

// A link fails where the name is taken, and on NFS may succeed although its answer is lost: then
// the file has two names (open(2), O_EXCL). Some file systems have no links (FUSE, FAT): there the
// name is reserved by an empty file, which the rename replaces; a job that is killed in between
// leaves it, and readers say that it is no shard.
bool AtomicFile::publish_new() {
  int result = attempt(injected_fault("rename", path_),
                       [&] { return ::link(temporary_.c_str(), path_.c_str()); });
  struct stat status = {};
  const int reason = errno;
  if (result < 0 && ::fstat(descriptor_, &status) == 0 && status.st_nlink == 2) result = 0;
  errno = reason;
  const bool without_links =
      result < 0 && (errno == EPERM || errno == EOPNOTSUPP || errno == ENOSYS || errno == EMLINK);
  if (without_links) {
    const int reserved = attempt(injected_fault("reserve", path_), [&] {
      return ::open(path_.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
    });
    if (reserved >= 0) ::close(reserved);
    result = reserved < 0 ? reserved : replace_reservation(temporary_, descriptor_, path_);
  } else if (result >= 0) {
    ::unlink(temporary_.c_str());
  }
  if (result >= 0 || errno == EEXIST) return result >= 0;
  const int error = errno;
  abandon();
  refuse("write", path_, error);
}

void AtomicFile::finish_as_new(const std::function<fs::path()>& next) {
  sync();
  while (!publish_new()) path_ = next();
  ::close(std::exchange(descriptor_, -1));
  sync_folder(path_);
}

bool AtomicFile::finish_if_new() {
  sync();
  const bool published = publish_new();
  if (published) {
    ::close(std::exchange(descriptor_, -1));
    sync_folder(path_);
  } else {
    abandon();
  }
  return published;
}

void write_file_atomically(const fs::path& path, std::span<const std::byte> bytes) {
  with_patience(path, [&] {
    AtomicFile file(path);
    file.append(bytes);
    file.finish();
  });
}

void write_file_atomically(const fs::path& path, std::string_view text) {
  write_file_atomically(path, std::as_bytes(std::span(text.data(), text.size())));
}

void remove_file_durably(const fs::path& path) {
  const auto remove = [&] {
    return attempt(injected_fault("unlink", path), [&] { return ::unlink(path.c_str()); });
  };
  int error = 0;
  for (Patience tries(path, Patience::Stop::kWaits); remove() < 0;) {
    if (errno == ENOENT && error != 0) break;  // done, and the answer was lost
    error = errno;
    if (!tries.again(error)) refuse("remove", path, error);
  }
  sync_folder(path);
}

void rename_durably(const fs::path& from, const fs::path& to) {
  const auto rename = [&] {
    return attempt(injected_fault("rename", to),
                   [&] { return ::rename(from.c_str(), to.c_str()); });
  };
  int error = 0;
  for (Patience tries(to, Patience::Stop::kWaits); rename() < 0;) {
    const bool again = error != 0;
    error = errno;
    if (again && error == ENOENT && fs::exists(status_of(to))) break;  // the answer was lost
    if (!tries.again(error)) refuse("create", to, error);
  }
  sync_folder(to);
}

void create_folders_durably(const fs::path& folder) {
  std::error_code ignored;
  if (folder.empty() || fs::is_directory(folder, ignored)) return;
  create_folders_durably(folder.parent_path());
  const auto make = [&] {
    return attempt(injected_fault("mkdir", folder), [&] { return ::mkdir(folder.c_str(), 0777); });
  };
  for (Patience tries(folder, Patience::Stop::kWaits); make() < 0 && errno != EEXIST;)
    if (const int error = errno; !tries.again(error)) refuse("create", folder, error);
  sync_folder(folder);
}

void set_file_fault_hook(FileFaultHook hook) {
  const std::lock_guard lock(fault_mutex);
  fault_hook = std::move(hook);
}

}  // namespace coldframe

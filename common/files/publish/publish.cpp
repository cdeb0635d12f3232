#include "common/files/publish/publish.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "common/cli/error.h"
#include "common/files/publish/file_calls.h"
#include "common/files/retry_policy.h"
#include "common/text/text.h"

namespace coldframe {
namespace {

namespace fs = std::filesystem;
using file_calls::attempt;
using file_calls::injected_fault;
using file_calls::refuse;

// The file system has no such renaming.
bool is_lacking(int error) {
  return error == EINVAL || error == ENOSYS || error == EOPNOTSUPP;
}

bool is_taken(int error) {
  return error == EEXIST || error == ENOTEMPTY;
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
  for (RetryPolicy tries(path, RetryPolicy::Stop::kWaits);
       (looked = ::stat(path.c_str(), &there)) < 0 && tries.again(errno);) {
  }
  const bool is_ours =
      there.st_size > 0 || (::fstat(descriptor, &ours) == 0 && there.st_ino == ours.st_ino);
  if (looked == 0 && is_ours) return 0;
  for (RetryPolicy tries(path, RetryPolicy::Stop::kWaits);
       looked == 0 && ::unlink(path.c_str()) < 0 && tries.again(errno);) {
  }
  errno = error;
  return -1;
}

// -1 with errno. Without renameat2's flag an empty folder reserves the name: a rename replaces
// that, and no other thing.
int try_folder(const fs::path& from, const fs::path& to) {
  const int result = attempt(injected_fault("rename", to), [&] {
    return ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE);
  });
  if (result == 0 || !is_lacking(errno)) return result;
  if (attempt(injected_fault("reserve", to), [&] { return ::mkdir(to.c_str(), 0777); }) < 0)
    return -1;
  if (attempt(injected_fault("replace", to), [&] { return ::rename(from.c_str(), to.c_str()); }) ==
      0)
    return 0;
  const int error = errno;
  ::rmdir(to.c_str());
  errno = error;
  return -1;
}

bool rename_folder_if_new(const fs::path& from, const fs::path& to) {
  bool tried = false;
  for (RetryPolicy tries(to, RetryPolicy::Stop::kWaits); try_folder(from, to) < 0; tried = true) {
    const int error = errno;
    std::error_code ignored;
    if (tried && !fs::exists(status_of(from, ignored)) && fs::exists(status_of(to, ignored)))
      break;  // done, and the answer was lost
    if (is_taken(error)) return false;
    if (!tries.again(error)) refuse("create", to, error);
  }
  return true;
}

class OpenFile {
 public:
  explicit OpenFile(const fs::path& path)
      : descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (descriptor_ < 0) refuse("read", path, errno);
  }
  ~OpenFile() { ::close(descriptor_); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

enum class Exchange { kDone, kNothingThere, kLacking };

Exchange exchange(const fs::path& one, const fs::path& other) {
  if (attempt(injected_fault("exchange", other), [&] {
        return ::renameat2(AT_FDCWD, one.c_str(), AT_FDCWD, other.c_str(), RENAME_EXCHANGE);
      }) == 0) {
    file_calls::sync_folder(other);
    return Exchange::kDone;
  }
  if (errno == ENOENT) return Exchange::kNothingThere;
  if (is_lacking(errno)) return Exchange::kLacking;
  refuse("replace", other, errno);
}

// For file systems that cannot exchange names.
void replace_by_steps(const fs::path& made, const fs::path& out, const RequireOwn& require_own) {
  const fs::path aside = made.string() + ".replaced";
  if (!rename_if_new(out, aside)) refuse_taken(aside);
  const auto put_back = [&] {
    if (!rename_if_new(aside, out)) refuse_taken(out);
  };
  try {
    require_own(aside);
  } catch (...) {
    put_back();
    throw;
  }
  if (rename_if_new(made, out)) return;
  refuse_taken(out);
}

}  // namespace

fs::path without_trailing_slash(const fs::path& path) {
  return path.has_filename() ? path : path.parent_path();
}

void refuse_taken(const fs::path& out) {
  throw SystemError(concat("'", out.string(), "' appeared while this program ran and is not ",
                           "replaced; choose another name, or move it away, and run the same ",
                           "command again"));
}

// A link fails where the name is taken, and on NFS may succeed although its answer is lost: then
// the file has two names (open(2), O_EXCL). Some file systems have no links (FUSE, FAT): there the
// name is reserved by an empty file, which the rename replaces; a job that is killed in between
// leaves it, and readers say that it is no shard.
bool rename_file_if_new(const fs::path& from, int descriptor, const fs::path& to) {
  int result =
      attempt(injected_fault("rename", to), [&] { return ::link(from.c_str(), to.c_str()); });
  struct stat status = {};
  const int reason = errno;
  if (result < 0 && ::fstat(descriptor, &status) == 0 && status.st_nlink == 2) result = 0;
  errno = reason;
  const bool without_links =
      result < 0 && (errno == EPERM || errno == EOPNOTSUPP || errno == ENOSYS || errno == EMLINK);
  if (without_links) {
    const int reserved = attempt(injected_fault("reserve", to), [&] {
      return ::open(to.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
    });
    if (reserved >= 0) ::close(reserved);
    result = reserved < 0 ? reserved : replace_reservation(from, descriptor, to);
  } else if (result >= 0) {
    ::unlink(from.c_str());
  }
  if (result >= 0 || errno == EEXIST) return result >= 0;
  refuse("write", to, errno);
}

bool rename_if_new(const fs::path& from, const fs::path& to) {
  const bool renamed = fs::is_directory(status_of(from))
                           ? rename_folder_if_new(from, to)
                           : rename_file_if_new(from, OpenFile(from).descriptor(), to);
  if (renamed) file_calls::sync_folder(to);
  return renamed;
}

void publish(const fs::path& made, const fs::path& out, Existing existing,
             const RequireOwn& require_own) {
  while (!rename_if_new(made, out)) {
    if (existing == Existing::kKeep) refuse_taken(out);
    require_own(out);
    const Exchange result = exchange(made, out);
    if (result == Exchange::kNothingThere) continue;
    if (result == Exchange::kLacking) return replace_by_steps(made, out, require_own);
    try {
      require_own(made);  // another thing may have come between
    } catch (...) {
      exchange(made, out);
      throw;
    }
    return;
  }
}

}  // namespace coldframe

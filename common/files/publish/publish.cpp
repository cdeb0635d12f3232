// The syncing of folders: see publish.h.
#include "common/files/publish/publish.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>
#include <vector>

#include "common/cli/error.h"
#include "common/cli/log.h"
#include "common/files/file.h"
#include "common/files/file_lock.h"
#include "common/files/fingerprint.h"
#include "common/files/publish/file_calls.h"
#include "common/files/publish/outputs.h"
#include "common/files/retry_policy.h"
#include "common/text/text.h"

namespace coldframe {

namespace {

namespace fs = std::filesystem;
using file_calls::attempt;
using file_calls::injected_fault;
using file_calls::OpenFile;
using file_calls::refuse;

void sync_file(const fs::path& path) {
  const OpenFile file(path);
  if (attempt(injected_fault("fsync", path), [&] { return ::fsync(file.descriptor()); }) < 0)
    refuse("write", path, errno);
}

// A temporary file of another process, or what NFS keeps of a file that is open, may vanish between
// two calls, and needs no syncing then.
template <typename Call>
void unless_it_vanishes(const fs::path& path, const Call& call) {
  try {
    call();
  } catch (const Error&) {
    std::error_code error;
    if (fs::exists(fs::symlink_status(path, error))) throw;
  }
}

void list_tree(const fs::path& folder, std::vector<fs::path>& files,
               std::vector<fs::path>& folders) {
  folders.push_back(folder);
  for (const fs::path& entry : entries_of(folder)) {
    std::error_code error;
    const fs::file_status status = fs::symlink_status(entry, error);
    if (fs::is_directory(status)) list_tree(entry, files, folders);
    if (fs::exists(status) && !fs::is_directory(status) && !fs::is_symlink(status))
      files.push_back(entry);
  }
}

}  // namespace

// All are sent to the disk before the first is waited for: then one commit of a journal holds them.
void sync_tree(const fs::path& path) {
  if (!fs::is_directory(path)) return sync_file(path);
  std::vector<fs::path> files, folders;
  list_tree(path, files, folders);
  for (const fs::path& file : files)
    unless_it_vanishes(
        file, [&] { ::sync_file_range(OpenFile(file).descriptor(), 0, 0, SYNC_FILE_RANGE_WRITE); });
  for (const fs::path& file : files) unless_it_vanishes(file, [&] { sync_file(file); });
  for (const fs::path& folder : folders)
    unless_it_vanishes(folder, [&] { file_calls::sync_folder(folder / "."); });
}

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

enum class Exchange { kDone, kNothingThere, kLacking };

// EXDEV: a folder in a lower layer of an overlay.
Exchange exchange(const fs::path& one, const fs::path& other) {
  if (attempt(injected_fault("exchange", other), [&] {
        return ::renameat2(AT_FDCWD, one.c_str(), AT_FDCWD, other.c_str(), RENAME_EXCHANGE);
      }) == 0) {
    file_calls::sync_folder(other);
    return Exchange::kDone;
  }
  if (errno == ENOENT) return Exchange::kNothingThere;
  if (is_lacking(errno) || errno == EXDEV) return Exchange::kLacking;
  refuse("replace", other, errno);
}

// Throws nothing: what made it necessary is to be told.
void undo_exchange(const fs::path& old, const fs::path& out) {
  try {
    exchange(old, out);
  } catch (const std::exception& error) {
    log_warning(concat("what had the name '", out.string(), "' lies in '", old.string(),
                       "' and did not get it back: ", error.what()));
  }
}

fs::path aside_of(const fs::path& out) {
  return out.string() + ".coldframe-replaced";
}

fs::path copy_of(const fs::path& aside) {
  return aside.string() + ".partial";
}

// Held from before anything moves aside until all is done. A killed process leaves its file, by
// which put_back() knows that what lies beside is a replacement's.
fs::path lock_of(const fs::path& out) {
  return aside_of(out).string() + ".lock";
}

FileLock lock_replacement(const fs::path& out) {
  LockOptions options;
  options.required = false;
  options.refuse = [&](const std::string& holder) {
    throw SystemError(concat("another process is replacing '", out.string(), "' (", holder,
                             "); wait for it, or choose another name"));
  };
  return FileLock(lock_of(out), options);
}

void remove_tree(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) refuse("remove", path, error.value());
}

// A folder that cannot be renamed where it lies is copied and removed. The copy has the name as
// soon as it is whole.
void copy_aside(const fs::path& out, const fs::path& aside) {
  const fs::path copy = copy_of(aside);
  try {
    fs::copy(out, copy, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    sync_tree(copy);
  } catch (const std::exception& error) {
    std::error_code ignored;
    fs::remove_all(copy, ignored);
    throw SystemError(concat("cannot replace '", out.string(), "', which cannot be renamed: ",
                             error.what(), "; move it away and run the same command again"));
  }
  if (!rename_if_new(copy, aside)) refuse_taken(aside);
  remove_tree(out);
}

// What is there already under that name was replaced by a process that was killed just then.
void move_aside(const fs::path& out, const fs::path& aside, const RequireOwn& require_own) {
  std::error_code ignored;
  if (fs::exists(status_of(aside, ignored))) {
    require_own(aside);
    remove_tree(aside);
  }
  const bool is_folder = fs::is_directory(status_of(out));
  if (is_folder && try_folder(out, aside) == 0) return file_calls::sync_folder(aside);
  if (is_folder && errno == EXDEV) return copy_aside(out, aside);
  if (!rename_if_new(out, aside)) refuse_taken(aside);
}

// Gives the old one its name again. Throws nothing: what made it necessary is to be told.
void undo(const fs::path& out, const fs::path& aside) {
  std::string reason = "another one appeared there";
  try {
    if (rename_if_new(aside, out)) return;
  } catch (const std::exception& error) {
    reason = error.what();
  }
  log_warning(concat("what was to be replaced lies in '", aside.string(), "' and did not get its ",
                     "name '", out.string(), "' back: ", reason));
}

void replace_by_steps(const fs::path& made, const fs::path& out, const RequireOwn& require_own) {
  const fs::path aside = aside_of(out);
  const FileLock lock = lock_replacement(out);
  move_aside(out, aside, require_own);
  try {
    require_own(aside);
    if (!rename_if_new(made, out)) refuse_taken(out);
  } catch (...) {
    undo(out, aside);
    throw;
  }
  if (!rename_if_new(aside, made)) refuse_taken(made);
}

bool is_same_file(const fs::path& one, const fs::path& other) {
  std::error_code error;
  return fs::is_regular_file(other, error) && fs::file_size(one, error) == fs::file_size(other) &&
         sha256_file(one) == sha256_file(other);
}

// True for what is left of a folder that was being removed when it had been copied.
bool is_rest_of(const fs::path& folder, const fs::path& whole) {
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const fs::path other = whole / entry.path().lexically_relative(folder);
    if (entry.is_directory() ? !fs::is_directory(other) : !is_same_file(entry.path(), other))
      return false;
  }
  return true;
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
                           : rename_file_if_new(from, file_calls::OpenFile(from).descriptor(), to);
  if (renamed) file_calls::sync_folder(to);
  return renamed;
}

void put_back(const fs::path& named) {
  const fs::path out = folder_target(named);
  const fs::path aside = aside_of(out), copy = copy_of(aside);
  std::error_code ignored;
  const auto exists = [&](const fs::path& path) { return fs::exists(status_of(path, ignored)); };
  if (!is_lock_file(lock_of(out)) || (!exists(aside) && !exists(copy))) return;
  struct AtWork {};
  LockOptions options;
  options.required = false;
  options.refuse = [](const std::string&) { throw AtWork(); };
  try {
    const FileLock lock(lock_of(out), options);
    if (exists(copy)) remove_tree(copy);
    if (!fs::is_directory(status_of(aside, ignored))) return;
    if (exists(out) && !(fs::is_directory(out) && is_rest_of(out, aside))) return;
    if (exists(out)) remove_tree(out);
    if (rename_if_new(aside, out))
      log_info(concat("'", out.string(), "' is back: a process was killed while it replaced it"));
  } catch (const AtWork&) {
    // It finishes what it began.
  }
}

void publish(const fs::path& made, const fs::path& out, Existing existing,
             const RequireOwn& require_own) {
  sync_tree(made);
  while (!rename_if_new(made, out)) {
    if (existing == Existing::kKeep) refuse_taken(out);
    require_own(out);
    keep_owner_and_mode(out, file_calls::OpenFile(made).descriptor());
    const Exchange result = exchange(made, out);
    if (result == Exchange::kNothingThere) continue;
    if (result == Exchange::kLacking) return replace_by_steps(made, out, require_own);
    try {
      require_own(made);  // another thing may have come between
    } catch (...) {
      undo_exchange(made, out);
      throw;
    }
    return;
  }
}

}  // namespace coldframe

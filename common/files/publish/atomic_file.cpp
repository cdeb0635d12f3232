#include "common/files/publish/atomic_file.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <utility>

#include "common/cli/error.h"
#include "common/files/fingerprint.h"
#include "common/files/publish/outputs.h"
#include "common/files/retry_policy.h"
#include "common/text/text.h"

namespace coldframe {

namespace {

namespace fs = std::filesystem;

using file_calls::attempt;
using file_calls::folder_of;
using file_calls::injected_fault;
using file_calls::refuse;
using file_calls::sync_folder;

constexpr const char* kTemporarySuffix = ".tmp";

// Tells hosts apart that share a file system, and containers of one host whose processes are
// numbered apart.
const std::string& this_host() {
  static const std::string mark = [] {
    char name[256] = "", numbering[64] = "";
    ::gethostname(name, sizeof name - 1);
    [[maybe_unused]] const ssize_t length =
        ::readlink("/proc/self/ns/pid", numbering, sizeof numbering - 1);
    std::string machine;
    std::ifstream("/etc/machine-id") >> machine;
    const std::string all = concat(name, '\n', machine, '\n', numbering);
    const std::uint64_t hash = xxh3_64(std::as_bytes(std::span(all)));
    return to_hex(std::as_bytes(std::span(&hash, 1)));
  }();
  return mark;
}

// Whatever process writes the file: its host, its number and a counter follow.
std::string temporary_prefix(const fs::path& path) {
  return concat(".", path.filename().string(), ".");
}

fs::path temporary_name(const fs::path& path) {
  static std::atomic<unsigned> counter{0};
  return folder_of(path) / concat(temporary_prefix(path), this_host(), "-", ::getpid(), "-",
                                  counter++, kTemporarySuffix);
}

// A file without a name in the temporary folder, for what goes to a stream in the end. `path`: the
// name that it had, for messages.
int open_nameless(fs::path& path) {
  std::error_code error;
  const fs::path folder = fs::temp_directory_path(error);
  std::string name = (folder / "coldframe-XXXXXX").string();
  const int descriptor = error ? -1 : ::mkostemp(name.data(), O_CLOEXEC);
  if (descriptor < 0) {
    const char* const named = std::getenv("TMPDIR");
    throw SystemError(concat("cannot make a temporary file in '", named ? named : "/tmp",
                             "': ", error ? error.message() : std::strerror(errno),
                             "; name a folder that you may write to in TMPDIR"));
  }
  ::unlink(name.c_str());
  path = name;
  return descriptor;
}

// True for "PREFIX", "PID-COUNTER.tmp" of a process of this host that is gone.
bool is_stale(std::string_view name, const std::string& prefix) {
  if (!name.starts_with(prefix) || !name.ends_with(kTemporarySuffix)) return false;
  const char* const end = name.data() + name.size();
  pid_t process = 0;
  const auto [rest, error] = std::from_chars(name.data() + prefix.size(), end, process);
  return error == std::errc() && process > 0 && *rest == '-' && ::kill(process, 0) != 0 &&
         errno == ESRCH;
}

}  // namespace

AtomicFile::AtomicFile(fs::path path, mode_t mode) : path_(link_target(std::move(path))) {
  if (!path_.has_filename()) {
    throw SystemError(concat("cannot write '", path_.string(), "': it names no file"));
  }
  struct stat status = {};
  if (::stat(path_.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) {
    refuse("write", path_, EISDIR);
  }
  if (const std::string kind = unwritable_kind(path_); !kind.empty())
    throw SystemError(concat("cannot write '", path_.string(), "': it is ", kind));
  if (is_stream(path_)) {
    is_stream_ = true;
    descriptor_ = open_nameless(temporary_);
    return;
  }
  // The counter makes names unique in this process; a leftover of an earlier process that had the
  // same number is skipped.
  for (int tries = 0; descriptor_ < 0; ++tries) {
    temporary_ = temporary_name(path_);
    descriptor_ = attempt(injected_fault("open", temporary_), [&] {
      return ::open(temporary_.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, mode);
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
  if (!is_stream_) ::unlink(temporary_.c_str());
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
    if (count <= 0) refuse("write", place(), count < 0 ? errno : EIO);
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
    if (count < 0) refuse("read back", place(), errno);
    if (count == 0) break;
    offset += static_cast<std::uint64_t>(count);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  std::fill(bytes.begin(), bytes.end(), std::byte{0});
}

void AtomicFile::truncate(std::uint64_t size) {
  const int result = attempt(injected_fault("truncate", temporary_),
                             [&] { return ::ftruncate(descriptor_, static_cast<off_t>(size)); });
  if (result < 0) refuse("write", place(), errno);
  size_ = size;
}

void AtomicFile::sync() {
  if (attempt(injected_fault("fsync", temporary_), [&] { return ::fsync(descriptor_); }) >= 0)
    return;
  const int error = errno;
  abandon();
  refuse("write", place(), error);
}

bool AtomicFile::fill_stream() {
  if (!is_stream_) return false;
  copy_to_stream(descriptor_, size_, path_);
  abandon();
  return true;
}

void AtomicFile::finish(Existing existing) {
  if (existing == Existing::kKeep) {
    if (!finish_if_new()) refuse_taken(path_);
    return;
  }
  if (fill_stream()) return;
  keep_owner_and_mode(path_, descriptor_);
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

bool AtomicFile::publish_new() {
  try {
    return rename_file_if_new(temporary_, descriptor_, path_);
  } catch (...) {
    abandon();
    throw;
  }
}

void AtomicFile::finish_as_new(const std::function<fs::path()>& next) {
  sync();
  while (!publish_new()) path_ = next();
  ::close(std::exchange(descriptor_, -1));
  sync_folder(path_);
}

bool AtomicFile::finish_if_new() {
  if (fill_stream()) return true;
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

void write_file_atomically(const fs::path& path, std::span<const std::byte> bytes,
                           Existing existing) {
  with_patience(path, [&] {
    AtomicFile file(path);
    file.append(bytes);
    file.finish(existing);
  });
}

void write_file_atomically(const fs::path& path, std::string_view text, Existing existing) {
  write_file_atomically(path, std::as_bytes(std::span(text.data(), text.size())), existing);
}

void remove_file_durably(const fs::path& path) {
  const auto remove = [&] {
    return attempt(injected_fault("unlink", path), [&] { return ::unlink(path.c_str()); });
  };
  int error = 0;
  for (RetryPolicy tries(path, RetryPolicy::Stop::kWaits); remove() < 0;) {
    if (errno == ENOENT && error != 0) break;  // done, and the answer was lost
    error = errno;
    if (!tries.again(error)) refuse("remove", path, error);
  }
  sync_folder(path);
}

void create_folders_durably(const fs::path& folder) {
  std::error_code ignored;
  if (folder.empty() || fs::is_directory(folder, ignored)) return;
  create_folders_durably(folder.parent_path());
  const auto make = [&] {
    return attempt(injected_fault("mkdir", folder), [&] { return ::mkdir(folder.c_str(), 0777); });
  };
  for (RetryPolicy tries(folder, RetryPolicy::Stop::kWaits); make() < 0 && errno != EEXIST;)
    if (const int error = errno; !tries.again(error)) refuse("create", folder, error);
  const fs::file_status made = fs::symlink_status(folder, ignored);  // or somebody else's
  if (fs::exists(made) && !fs::is_directory(folder, ignored)) refuse("create", folder, EEXIST);
  sync_folder(folder);
}

void remove_stale_temporaries(const fs::path& path) {
  const std::string prefix = concat(temporary_prefix(path), this_host(), "-");
  std::error_code ignored;
  for (const fs::path& entry : entries_of(folder_of(path), ignored))
    if (is_stale(entry.filename().string(), prefix)) fs::remove(entry, ignored);
}

namespace fs = std::filesystem;

AtomicFile& FileSet::add(const fs::path& path) {
  paths_.push_back(link_target(path));  // where the file appears
  return *files_.emplace_back(std::make_unique<AtomicFile>(path));
}

void FileSet::take_back(std::size_t files) const {
  std::error_code ignored;
  if (existing_ == Existing::kReplace) return;
  for (std::size_t i = 0; i < files; ++i)
    if (!is_stream(paths_[i])) fs::remove(paths_[i], ignored);
}

void FileSet::finish() {
  for (const auto& file : files_) file->sync();  // a full disk shows before any of them appears
  std::size_t files = 0;
  try {
    for (; files < files_.size(); ++files) files_[files]->finish(existing_);
  } catch (...) {
    take_back(files);
    throw;
  }
}

}  // namespace coldframe

#include "common/files/publish/destination.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "common/cli/error.h"
#include "common/cli/interrupt.h"
#include "common/cli/output.h"
#include "common/files/publish/file_calls.h"
#include "common/files/publish/publish.h"
#include "common/text/text.h"

namespace coldframe {
namespace {

namespace fs = std::filesystem;

constexpr int kMostLinks = 40;           // Linux's own limit (path_resolution(7))
constexpr int kBetweenLooksMs = 50;      // for a reader, or a stop request
constexpr std::size_t kBlock = 1 << 16;  // bytes

// An entry of /proc/PID/fd reads like a link to a file, but is the open file itself.
bool is_descriptor(const fs::path& path) {
  std::error_code error;
  const fs::path folder = fs::canonical(file_calls::folder_of(path), error);
  return !error && folder.filename() == "fd" && folder.string().starts_with("/proc/");
}

mode_t kind_of(const fs::path& path) {
  struct stat status = {};
  return ::stat(path.c_str(), &status) == 0 ? status.st_mode & S_IFMT : 0;
}

// A name of this process's own descriptor shares its place in the file.
int own_descriptor(const fs::path& path) {
  std::int64_t number = 0;
  std::error_code error;
  const bool own =
      is_descriptor(path) && fs::equivalent(path.parent_path(), "/proc/self/fd", error);
  return own && parse_int(path.filename().string(), number) ? static_cast<int>(number) : -1;
}

int open_stream(const fs::path& path) {
  if (const int own = own_descriptor(path); own >= 0) return ::fcntl(own, F_DUPFD_CLOEXEC, 0);
  for (;;) {
    const int stream = ::open(path.c_str(), O_WRONLY | O_APPEND | O_NONBLOCK | O_CLOEXEC);
    if (stream >= 0 || (errno != ENXIO && errno != EINTR)) return stream;
    if (stop_requested())
      throw Interrupted(concat("stopped while nobody read from '", path.string(), "'"));
    ::poll(nullptr, 0, kBetweenLooksMs);
  }
}

}  // namespace

fs::path link_target(fs::path path) {
  std::error_code error;
  for (int links = 0; fs::is_symlink(fs::symlink_status(path, error)); ++links) {
    if (is_descriptor(path)) return path;
    const fs::path target = fs::read_symlink(path, error);
    if (error || links == kMostLinks)
      file_calls::refuse("follow", path, error ? error.value() : ELOOP);
    path = target.is_absolute() ? target : path.parent_path() / target;
  }
  return path;
}

fs::path folder_target(const fs::path& typed) {
  return link_target(without_trailing_slash(fs::absolute(typed)));
}

bool is_stream(const fs::path& path) {
  const mode_t kind = kind_of(path);
  return kind == S_IFCHR || kind == S_IFIFO || (kind != 0 && is_descriptor(path));
}

std::string unwritable_kind(const fs::path& path) {
  const mode_t kind = kind_of(path);
  return kind == S_IFSOCK ? "a socket" : kind == S_IFBLK ? "a block device" : "";
}

void copy_to_stream(int from, std::uint64_t size, const fs::path& stream) {
  const int to = open_stream(stream);
  int error = to < 0 ? errno : 0;
  std::vector<char> block(kBlock);
  for (std::uint64_t done = 0; error == 0 && done < size;) {
    const ssize_t count = ::pread(from, block.data(), block.size(), static_cast<off_t>(done));
    if (count <= 0 || !write_all(to, block.data(), static_cast<std::size_t>(count)))
      error = count == 0 ? EIO : errno;
    done += static_cast<std::uint64_t>(std::max<ssize_t>(count, 0));
  }
  if (to >= 0) ::close(to);
  if (error != 0) file_calls::refuse("write to", stream, error);
}

// The owner first: that takes the set-user-ID bit away.
void keep_owner_and_mode(const fs::path& replaced, int descriptor) {
  struct stat old = {};
  if (::stat(replaced.c_str(), &old) != 0) return;
  constexpr uid_t kAsItIs = static_cast<uid_t>(-1);
  [[maybe_unused]] const bool kept = ::fchown(descriptor, old.st_uid, old.st_gid) == 0 ||
                                     ::fchown(descriptor, kAsItIs, old.st_gid) == 0;
  ::fchmod(descriptor, old.st_mode & 07777);
}

}  // namespace coldframe

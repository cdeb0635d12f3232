#include "common/files/publish/scratch_folder.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <ctime>
#include <string>

#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kRandomLetters = 6;    // mkdtemp's
constexpr std::time_t kAgeOfAbandoned = 60;  // seconds; a folder is locked just after it is made

// Locks may be local to a host on a shared file system (NFS, Lustre): a folder is judged by its own
// host alone. Of containers with one name and processes of their own the lock decides.
std::string prefix_of_this_host() {
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  std::string prefix = concat("coldframe-scratch-", host, "-");
  std::ranges::replace(prefix, '/', '_');
  return prefix;
}

// True for "PREFIX", "PID-XXXXXX" of a process that is gone, or of this one, whose lock tells.
bool may_be_abandoned(const std::string& name, const std::string& prefix) {
  if (!name.starts_with(prefix)) return false;
  const char* end = name.data() + name.size();
  pid_t process = 0;
  const auto [rest, error] = std::from_chars(name.data() + prefix.size(), end, process);
  if (error != std::errc() || process <= 0 || *rest != '-' ||
      static_cast<std::size_t>(end - rest) != 1 + kRandomLetters)
    return false;
  return process == ::getpid() || (::kill(process, 0) != 0 && errno == ESRCH);
}

void remove_abandoned_folders(const fs::path& parent, const std::string& prefix) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(parent, error)) {
    if (!may_be_abandoned(entry.path().filename().string(), prefix)) continue;
    const FolderLock lock(entry.path(), /*waits=*/false);
    if (!lock) continue;
    struct stat status {};
    const bool ours = ::fstat(lock.descriptor(), &status) == 0 && status.st_uid == ::geteuid();
    if (ours && std::time(nullptr) - status.st_mtime > kAgeOfAbandoned)
      fs::remove_all(entry.path(), error);
  }
}

}  // namespace

ScratchFolder::ScratchFolder(fs::path parent) {
  if (parent.empty()) parent = fs::temp_directory_path();
  const std::string prefix = prefix_of_this_host();
  remove_abandoned_folders(parent, prefix);
  const std::string random(kRandomLetters, 'X');
  std::string name = (parent / concat(prefix, ::getpid(), "-", random)).string();
  if (::mkdtemp(name.data()) == nullptr)
    throw SystemError(concat("cannot make a folder in '", parent.string(), "': ",
                             std::strerror(errno), "; check that it exists and may be written to"));
  path_ = name;
  lock_.emplace(path_, /*waits=*/true);  // another process may just be looking whose it is
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace coldframe

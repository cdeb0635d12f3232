#include "common/files/scratch_folder.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <string>

#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe {

namespace fs = std::filesystem;

namespace {

constexpr const char* kScratchName = "coldframe-scratch-";
constexpr std::time_t kAgeOfAbandoned = 60;  // seconds; a folder is locked just after it is made

// The folder, locked, or -1 where another process has it and `how` says not to wait.
int lock_folder(const fs::path& path, int how = LOCK_EX) {
  const int folder = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder < 0 || ::flock(folder, how) == 0) return folder;
  ::close(folder);
  return -1;
}

void remove_abandoned_folders(const fs::path& parent) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(parent, error)) {
    if (!entry.path().filename().string().starts_with(kScratchName)) continue;
    const int folder = lock_folder(entry.path(), LOCK_EX | LOCK_NB);
    if (folder < 0) continue;
    struct stat status {};
    const bool ours = ::fstat(folder, &status) == 0 && status.st_uid == ::geteuid();
    if (ours && std::time(nullptr) - status.st_mtime > kAgeOfAbandoned)
      fs::remove_all(entry.path(), error);
    ::close(folder);
  }
}

}  // namespace

ScratchFolder::ScratchFolder(fs::path parent) {
  if (parent.empty()) parent = fs::temp_directory_path();
  remove_abandoned_folders(parent);
  std::string name = (parent / (std::string(kScratchName) + "XXXXXX")).string();
  if (::mkdtemp(name.data()) == nullptr)
    throw SystemError(concat("cannot make a folder in '", parent.string(), "': ",
                             std::strerror(errno), "; check that it exists and may be written to"));
  path_ = name;
  lock_ = lock_folder(path_);  // another process may just be looking whose it is
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  if (lock_ >= 0) ::close(lock_);
}

}  // namespace coldframe

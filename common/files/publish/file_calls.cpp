#include "common/files/publish/file_calls.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <mutex>
#include <utility>

#include "common/cli/error.h"
#include "common/files/retry_policy.h"
#include "common/text/text.h"

namespace coldframe {
namespace {

namespace fs = std::filesystem;

FileFaultHook fault_hook;
std::mutex fault_mutex;

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

// -1 with errno. Some network file systems do not sync folders and say EINVAL.
int try_sync(const fs::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return -1;
  const int result = file_calls::attempt(file_calls::injected_fault("fsync_folder", folder),
                                         [&] { return ::fsync(descriptor); });
  const int error = errno;
  ::close(descriptor);
  errno = error;
  return result < 0 && error != EINVAL ? -1 : 0;
}

}  // namespace

void set_file_fault_hook(FileFaultHook hook) {
  const std::lock_guard lock(fault_mutex);
  fault_hook = std::move(hook);
}

namespace file_calls {

int injected_fault(std::string_view name, const fs::path& path) {
  FileFaultHook hook;
  {
    const std::lock_guard lock(fault_mutex);
    hook = fault_hook;
  }
  return hook ? hook(name, path) : 0;
}

void refuse(std::string_view verb, const fs::path& path, int error) {
  if (is_transient(error)) throw PassingError(message_of(verb, path, error), error);
  throw SystemError(message_of(verb, path, error));
}

OpenFile::OpenFile(const fs::path& path) : descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
  if (descriptor_ < 0) refuse("read", path, errno);
}

OpenFile::~OpenFile() {
  ::close(descriptor_);
}

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

void sync_folder(const fs::path& path) {
  const fs::path folder = folder_of(path);
  for (RetryPolicy tries(folder, RetryPolicy::Stop::kWaits); try_sync(folder) < 0;)
    if (const int error = errno; !tries.again(error))
      throw SystemError(message_of("sync the folder of", path, error));
}

}  // namespace file_calls
}  // namespace coldframe

#include "common/files/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/cli/error.h"
#include "common/files/retry_policy.h"
#include "common/text/text.h"

namespace coldframe {

void refuse_by_name(const std::filesystem::path& path, std::string_view reason) {
  throw DataError(concat("cannot read '", path.string(), "': ", reason));
}

void refuse_unnamed(const std::filesystem::path&, std::string_view reason) {
  throw DataError(std::string(reason));
}

namespace {

// The descriptor, and what fstat tells of it; -1 with errno.
int open_and_look(const std::filesystem::path& path, struct stat& status) {
  // Not blocking: opening a pipe that nobody writes to would wait for ever.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0 || ::fstat(descriptor, &status) == 0) return descriptor;
  const int error = errno;
  ::close(descriptor);
  errno = error;
  return -1;
}

std::string identity_of(const struct stat& status) {
  return concat(status.st_dev, ":", status.st_ino, ":", status.st_size, ":", status.st_mtim.tv_sec,
                ".", status.st_mtim.tv_nsec);
}

// Without the device, which may have another number when it is mounted again.
std::string_view without_device(std::string_view identity) {
  return identity.substr(identity.find(':'));
}

}  // namespace

InputFile::InputFile(std::filesystem::path path, RefuseFile refuse_file)
    : path_(std::move(path)), refuse_(refuse_file) {
  struct stat status = {};
  for (RetryPolicy tries(path_); descriptor_ < 0;) {
    descriptor_ = open_and_look(path_, status);
    if (const int error = errno; descriptor_ < 0 && !tries.again(error))
      refuse(std::strerror(error));
  }
  if (!S_ISREG(status.st_mode)) {
    ::close(descriptor_);
    refuse(S_ISDIR(status.st_mode) ? "it is a folder, not a regular file"
                                   : "it is not a regular file");
  }
  size_ = static_cast<std::uint64_t>(status.st_size);
  identity_ = identity_of(status);
}

InputFile::~InputFile() {
  ::close(descriptor_);
}

// After a remount the old descriptor is stale for ever. Other threads may be reading by it.
void InputFile::reopen() const {
  struct stat status = {};
  const int fresh = open_and_look(path_, status);
  if (fresh < 0) return;  // the next read tells
  const bool same = without_device(identity_of(status)) == without_device(identity_);
  if (same) ::dup3(fresh, descriptor_, O_CLOEXEC);
  ::close(fresh);
  if (!same) refuse("it changed while it was read");
}

void InputFile::refuse(std::string_view reason) const {
  refuse_(path_, reason);
  ByteSource::refuse(reason);
}

std::size_t InputFile::read_some(std::uint64_t offset, std::span<std::byte> bytes) const {
  if (offset >= size_) return 0;
  const std::size_t wanted = std::min<std::uint64_t>(bytes.size(), size_ - offset);
  std::size_t done = 0;
  RetryPolicy tries(path_);
  while (done < wanted) {
    const ssize_t count =
        ::pread(descriptor_, bytes.data() + done, wanted - done, static_cast<off_t>(offset + done));
    if (const int error = errno; count < 0 && error != EINTR) {
      if (!tries.again(error)) refuse(std::strerror(error));
      reopen();
    }
    if (count < 0) continue;
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
  }
  note_reading();
  bytes_read_ += done;
  return done;
}

std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder) {
  std::error_code error;
  std::vector<std::filesystem::path> entries = entries_of(folder, error);
  if (!error || error.value() == ENOTDIR || error.value() == ENOENT) return entries;
  throw SystemError(concat("cannot list '", folder.string(), "': ", error.message()));
}

std::string read_text_file(const std::filesystem::path& path, std::uint64_t limit) {
  const InputFile file(path);
  if (file.size() > limit) {
    refuse_by_name(path, concat("it has ", human_bytes(file.size()), "; at most ",
                                human_bytes(limit), " were expected"));
  }
  std::string content(file.size(), '\0');
  content.resize(file.read_some(0, std::as_writable_bytes(std::span(content))));
  return content;
}

}  // namespace coldframe

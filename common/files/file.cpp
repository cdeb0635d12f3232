#include "common/files/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe {

void refuse_by_name(const std::filesystem::path& path, std::string_view reason) {
  throw DataError(concat("cannot read '", path.string(), "': ", reason));
}

void refuse_unnamed(const std::filesystem::path&, std::string_view reason) {
  throw DataError(std::string(reason));
}

InputFile::InputFile(std::filesystem::path path, RefuseFile refuse_file)
    : path_(std::move(path)), refuse_(refuse_file) {
  // Not blocking: opening a pipe that nobody writes to would wait for ever.
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0) refuse(std::strerror(errno));
  struct stat status = {};
  if (::fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(descriptor_);
    refuse(S_ISDIR(status.st_mode) ? "it is a folder, not a regular file"
                                   : "it is not a regular file");
  }
  size_ = static_cast<std::uint64_t>(status.st_size);
  identity_ = concat(status.st_dev, ":", status.st_ino, ":", status.st_size, ":",
                     status.st_mtim.tv_sec, ".", status.st_mtim.tv_nsec);
}

InputFile::~InputFile() {
  ::close(descriptor_);
}

void InputFile::refuse(std::string_view reason) const {
  refuse_(path_, reason);
  ByteSource::refuse(reason);
}

std::size_t InputFile::read_some(std::uint64_t offset, std::span<std::byte> bytes) const {
  if (offset >= size_) return 0;
  const std::size_t wanted = std::min<std::uint64_t>(bytes.size(), size_ - offset);
  std::size_t done = 0;
  while (done < wanted) {
    const ssize_t count =
        ::pread(descriptor_, bytes.data() + done, wanted - done, static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) refuse(std::strerror(errno));
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
  }
  bytes_read_ += done;
  return done;
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

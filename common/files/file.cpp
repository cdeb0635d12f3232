#include "common/files/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe {

namespace {

[[noreturn]] void refuse(const std::filesystem::path& path, std::string_view reason) {
  throw DataError(concat("cannot read '", path.string(), "': ", reason));
}

}  // namespace

InputFile::InputFile(std::filesystem::path path) : path_(std::move(path)) {
  // Not blocking: opening a pipe that nobody writes to would wait for ever.
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0) refuse(path_, std::strerror(errno));
  struct stat status = {};
  if (::fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode)) {
    size_ = static_cast<std::uint64_t>(status.st_size);
    return;
  }
  ::close(descriptor_);
  refuse(path_, S_ISDIR(status.st_mode) ? "it is a folder; a file was expected"
                                        : "it is not a regular file");
}

InputFile::~InputFile() {
  ::close(descriptor_);
}

std::size_t InputFile::read_some(std::uint64_t offset, std::span<std::byte> bytes) const {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = ::pread(descriptor_, bytes.data() + done, bytes.size() - done,
                                  static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) refuse(path_, std::strerror(errno));
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
  }
  return done;
}

void InputFile::read_at(std::uint64_t offset, std::span<std::byte> bytes) const {
  const std::size_t count = read_some(offset, bytes);
  if (count < bytes.size()) {
    refuse(path_, concat("it ends at byte ", offset + count, "; at least ", offset + bytes.size(),
                         " bytes were expected"));
  }
}

std::string read_text_file(const std::filesystem::path& path, std::uint64_t limit) {
  const InputFile file(path);
  if (file.size() > limit) {
    refuse(path, concat("it has ", human_bytes(file.size()), "; at most ", human_bytes(limit),
                        " were expected"));
  }
  std::string content(file.size(), '\0');
  content.resize(file.read_some(0, std::as_writable_bytes(std::span(content))));
  return content;
}

}  // namespace coldframe

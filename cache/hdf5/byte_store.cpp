#include "cache/hdf5/byte_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe::cache::hdf5 {

void MemoryStore::read_at(std::uint64_t offset, std::span<std::byte> bytes) const {
  const std::uint64_t there = offset < bytes_.size() ? bytes_.size() - offset : 0;
  const std::size_t copied = std::min<std::uint64_t>(there, bytes.size());
  if (copied > 0) std::memcpy(bytes.data(), bytes_.data() + offset, copied);
  std::fill(bytes.begin() + static_cast<std::ptrdiff_t>(copied), bytes.end(), std::byte{0});
}

void MemoryStore::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  if (offset + bytes.size() > bytes_.size()) bytes_.resize(offset + bytes.size());
  std::memcpy(bytes_.data() + offset, bytes.data(), bytes.size());
}

void AtomicFileStore::read_at(std::uint64_t offset, std::span<std::byte> bytes) const {
  file_.read_at(offset, bytes);
}

void AtomicFileStore::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  file_.write_at(offset, bytes);
}

void AtomicFileStore::truncate(std::uint64_t size) {
  file_.truncate(size);
}

ReadOnlyFile::ReadOnlyFile(const std::filesystem::path& path) : name_(path.string()) {
  // O_NONBLOCK: a named pipe of this name is refused below instead of waiting for a writer.
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0) throw CacheError(concat(name_, ": ", std::strerror(errno)));
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(descriptor_);
    throw CacheError(concat(name_, ": not a regular file"));
  }
  size_ = visible_ = static_cast<std::uint64_t>(status.st_size);
  identity_ = concat(status.st_dev, ":", status.st_ino, ":", status.st_size, ":",
                     status.st_mtim.tv_sec, ".", status.st_mtim.tv_nsec);
}

ReadOnlyFile::~ReadOnlyFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void ReadOnlyFile::read_at(std::uint64_t offset, std::span<std::byte> bytes) const {
  const std::uint64_t there = offset < visible_ ? visible_ - offset : 0;
  std::span<std::byte> wanted = bytes.first(std::min<std::uint64_t>(there, bytes.size()));
  std::fill(bytes.begin() + static_cast<std::ptrdiff_t>(wanted.size()), bytes.end(), std::byte{0});
  while (!wanted.empty()) {
    const ssize_t got =
        ::pread(descriptor_, wanted.data(), wanted.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw CacheError(concat(name_, ": cannot be read: ", std::strerror(errno)));
    if (got == 0) throw CacheError(concat(name_, ": became shorter while it was read"));
    wanted = wanted.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
}

void ReadOnlyFile::write_at(std::uint64_t, std::span<const std::byte>) {
  throw CacheError(concat(name_, ": is open for reading only"));
}

void ReadOnlyFile::truncate(std::uint64_t) {
  throw CacheError(concat(name_, ": is open for reading only"));
}

}  // namespace coldframe::cache::hdf5

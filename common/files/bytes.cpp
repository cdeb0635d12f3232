#include "common/files/bytes.h"

#include <algorithm>
#include <cstring>

#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe {

void ByteSource::refuse(std::string_view reason) const {
  throw DataError(std::string(reason));
}

void ByteSource::require(std::uint64_t offset, std::uint64_t count) const {
  if (offset <= size() && count <= size() - offset) return;
  refuse(concat("it is truncated: it ends at byte ", size(), "; at least ",
                offset + std::min(count, ~offset), " bytes were expected"));
}

void ByteSource::read_at(std::uint64_t offset, std::span<std::byte> bytes) const {
  require(offset, bytes.size());
  if (read_some(offset, bytes) < bytes.size()) refuse("it became shorter while it was read");
}

std::string ByteSource::read(std::uint64_t offset, std::uint64_t count) const {
  require(offset, count);
  std::string content(count, '\0');
  read_at(offset, std::as_writable_bytes(std::span(content)));
  return content;
}

std::size_t MemoryBytes::read_some(std::uint64_t offset, std::span<std::byte> bytes) const {
  if (offset >= content_.size()) return 0;
  const std::size_t count = std::min<std::uint64_t>(bytes.size(), content_.size() - offset);
  std::memcpy(bytes.data(), content_.data() + offset, count);
  return count;
}

}  // namespace coldframe

#include "cache/hdf5/byte_store.h"

#include <algorithm>
#include <cstring>

namespace coldframe::cache::hdf5 {

std::size_t ByteStore::read_some(std::uint64_t offset, std::span<std::byte> bytes) const {
  const std::uint64_t there = offset < size() ? size() - offset : 0;
  const auto wanted = bytes.first(std::min<std::uint64_t>(there, bytes.size()));
  read_at(offset, wanted);
  return wanted.size();
}

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

}  // namespace coldframe::cache::hdf5

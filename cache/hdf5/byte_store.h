// Stands in for HDF5's file: bytes by offset, held in memory or in an AtomicFile. HDF5 itself never
// touches the disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/files/bytes/byte_source.h"
#include "common/files/publish/atomic_file.h"

namespace coldframe::cache::hdf5 {

class ByteStore : public ByteSource {
 public:
  std::size_t read_some(std::uint64_t offset, std::span<std::byte> bytes) const override;
  // Bytes beyond the end read as zeros, as HDF5 expects of a file that it is still building.
  virtual void read_at(std::uint64_t offset, std::span<std::byte> bytes) const = 0;
  virtual void write_at(std::uint64_t offset, std::span<const std::byte> bytes) = 0;
  virtual void truncate(std::uint64_t size) = 0;
};

// A shard under construction.
class MemoryStore : public ByteStore {
 public:
  std::uint64_t size() const override { return bytes_.size(); }
  void read_at(std::uint64_t offset, std::span<std::byte> bytes) const override;
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes) override;
  void truncate(std::uint64_t size) override { bytes_.resize(size); }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

// A cache being packed, which may be larger than memory.
class AtomicFileStore : public ByteStore {
 public:
  explicit AtomicFileStore(AtomicFile& file) : file_(file) {}
  std::uint64_t size() const override { return file_.size(); }
  void read_at(std::uint64_t offset, std::span<std::byte> bytes) const override;
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes) override;
  void truncate(std::uint64_t size) override;

 private:
  AtomicFile& file_;
};

}  // namespace coldframe::cache::hdf5

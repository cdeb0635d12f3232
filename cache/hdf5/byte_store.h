// What HDF5 sees as its file: bytes by offset, held in memory, in an AtomicFile or in a file that
// is only read. HDF5 itself never touches the disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "common/files/atomic_file.h"

namespace coldframe::cache::hdf5 {

class ByteStore {
 public:
  virtual ~ByteStore() = default;
  virtual std::uint64_t size() const = 0;
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

// An existing file; `visible` hides what lies behind HDF5's own end.
class ReadOnlyFile : public ByteStore {
 public:
  explicit ReadOnlyFile(const std::filesystem::path& path);  // CacheError
  ~ReadOnlyFile() override;
  ReadOnlyFile(const ReadOnlyFile&) = delete;
  ReadOnlyFile& operator=(const ReadOnlyFile&) = delete;

  std::uint64_t size() const override { return visible_; }
  void read_at(std::uint64_t offset, std::span<std::byte> bytes) const override;
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes) override;
  void truncate(std::uint64_t size) override;

  const std::string& name() const { return name_; }
  std::uint64_t size_on_disk() const { return size_; }
  void show_only(std::uint64_t size) { visible_ = size; }
  // Device, inode, size and modification time: equal for two opens of one unchanged file.
  const std::string& identity() const { return identity_; }

 private:
  std::string name_, identity_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0, visible_ = 0;
};

}  // namespace coldframe::cache::hdf5

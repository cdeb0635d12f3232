// Stands in for HDF5's file: bytes by offset, held in memory or in an AtomicFile. HDF5 itself never
// touches the disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cache/hdf5/dataset.h"
#include "common/files/bytes.h"
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

std::string library_version();  // of HDF5: "1.10.8"

// Writes an HDF5 file of the latest format into a ByteStore: groups, chunked datasets with
// fletcher32, attributes.

// Takes rows one after another; HDF5 gets whole chunks, so that it never reads one back.
class DatasetWriter {
 public:
  ~DatasetWriter();
  DatasetWriter(DatasetWriter&&) noexcept;
  DatasetWriter& operator=(DatasetWriter&&) noexcept;
  void append(std::span<const std::byte> rows);
  void finish();  // CacheError unless exactly spec.rows rows came

 private:
  friend class FileWriter;
  struct State;
  explicit DatasetWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

class FileWriter {
 public:
  explicit FileWriter(ByteStore& store);
  ~FileWriter();  // drops what was not closed
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  // `names`: of what will be in it, where that is much.
  void add_group(const std::string& path, const std::vector<std::string>& names = {});
  DatasetWriter add_dataset(const std::string& path, const DatasetSpec& spec);
  void add_dataset(const std::string& path, const DatasetSpec& spec,
                   std::span<const std::byte> rows);
  void set_attribute(const std::string& name, std::int64_t value);
  void set_attribute(const std::string& name, const std::string& value);
  void set_attribute(const std::string& name, const std::vector<std::string>& values);

  // Throws the store's first error, whatever HDF5 made of it.
  void close();

 private:
  friend class DatasetWriter;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace coldframe::cache::hdf5

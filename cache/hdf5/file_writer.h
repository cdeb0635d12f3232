// Writes an HDF5 file of the latest format into a ByteStore: groups, chunked datasets with
// fletcher32, attributes.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cache/hdf5/byte_store.h"
#include "cache/hdf5/dataset.h"

namespace coldframe::cache::hdf5 {

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

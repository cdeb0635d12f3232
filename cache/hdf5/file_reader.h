// Reads an HDF5 file out of a ByteStore and accepts only what FileWriter writes: plain hard links,
// chunked datasets whose every chunk is there and has a fletcher32 checksum, few types.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cache/hdf5/byte_store.h"
#include "cache/hdf5/dataset.h"

namespace coldframe::cache::hdf5 {

class DatasetReader {
 public:
  ~DatasetReader();
  DatasetReader(DatasetReader&&) noexcept;
  DatasetReader& operator=(DatasetReader&&) noexcept;
  const DatasetSpec& spec() const;
  void read_rows(std::uint64_t first, std::uint64_t count, std::span<std::byte> destination) const;

 private:
  friend class FileReader;
  struct State;
  explicit DatasetReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Every method throws CacheError without the file's name: the caller knows it.
class FileReader {
 public:
  explicit FileReader(ByteStore& store);
  ~FileReader();
  FileReader(const FileReader&) = delete;
  FileReader& operator=(const FileReader&) = delete;

  // Names in a group in the order in which they were created.
  std::vector<std::string> names(const std::string& group) const;
  // Dimensions are bounded by the size of the file.
  DatasetReader dataset(const std::string& path) const;

  std::int64_t integer_attribute(const std::string& name) const;
  std::string text_attribute(const std::string& name) const;
  std::vector<std::string> texts_attribute(const std::string& name) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The text in a fixed-length field: up to its padding.
std::string unpad(std::span<const std::byte> field);

}  // namespace coldframe::cache::hdf5

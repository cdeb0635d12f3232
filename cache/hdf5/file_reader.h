// Reads an HDF5 file out of a ByteSource and accepts only what FileWriter writes: plain hard links,
// chunked datasets whose every chunk is there and has a fletcher32 checksum, few types.
//
// Does not use the HDF5 library. Debian's 1.10.8 crashes on many malformed files, and a
// trailer that matches only says that a file is as its writer left it, not that the writer meant
// well. What this format uses of HDF5 is small enough to read here with every length, count and
// address checked against the file before it is used: a hostile file ends in a CacheError. (Opening
// files in a child process first would cost a second pass and would still leave the library, with
// another heap, to the parent.) HDF5's own checksums are compared where the
// trailer is lost alone: it covers all metadata, and every exam has a checksum of its own.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cache/hdf5/dataset.h"
#include "common/files/bytes.h"

namespace coldframe::cache::hdf5 {

// CacheError(what) unless the condition holds.
void require(bool condition, const std::string& what);

// Bytes of the file from `begin` to `end`.
struct Extent {
  std::uint64_t begin, end;
};

// Reads from the ByteSource of the FileReader that made it, which must outlive it.
class DatasetReader {
 public:
  const DatasetSpec& spec() const;
  // The extent of each chunk in the file, with its checksum, in the order of its rows.
  std::vector<Extent> chunks() const;
  // `destination`: count · row_bytes. Thread-safe as far as the ByteSource is.
  void read_rows(std::uint64_t first, std::uint64_t count, std::span<std::byte> destination) const;

 private:
  friend class FileReader;
  struct State;
  explicit DatasetReader(std::shared_ptr<const State> state);
  std::shared_ptr<const State> state_;
};

// HDF5's own checksums of metadata. They are ignored where the trailer vouches for these.
enum class Checksums { kIgnored, kCompared };

// Every method throws CacheError without the file's name: the caller knows it.
class FileReader {
 public:
  explicit FileReader(const ByteSource& store, Checksums checksums = Checksums::kIgnored);
  ~FileReader();
  FileReader(const FileReader&) = delete;
  FileReader& operator=(const FileReader&) = delete;

  // Names in a group in the order in which they were created.
  std::vector<std::string> names(const std::string& group) const;
  // All datasets together hold no more bytes than the file.
  DatasetReader dataset(const std::string& path) const;
  // CacheError unless every chunk of the datasets that were asked for has its checksum.
  void check_chunks() const;

  bool has_attribute(const std::string& name) const;
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

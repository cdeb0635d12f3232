// Where a DICOM file's bytes come from: a file, or memory (deflated data sets, the fuzzer).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace coldframe::frames::dicom {

class Bytes {
 public:
  virtual ~Bytes() = default;
  virtual std::uint64_t size() const = 0;
  // Fills `out` from `offset` as far as there is data and returns how much there was.
  virtual std::size_t read_some(std::uint64_t offset, std::span<std::byte> out) const = 0;

  // DataError unless all of it is there; checked before anything is allocated.
  std::string read(std::uint64_t offset, std::uint64_t count) const;
};

std::shared_ptr<const Bytes> bytes_of_file(const std::filesystem::path& path);
std::shared_ptr<const Bytes> bytes_in_memory(std::string content);

// What a raw deflate stream (RFC 1951) that starts at `offset` holds. DataError when it is damaged,
// or larger than `limit`.
std::string inflate(const Bytes& bytes, std::uint64_t offset, std::uint64_t limit);

}  // namespace coldframe::frames::dicom

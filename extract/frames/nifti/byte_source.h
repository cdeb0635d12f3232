// Bytes of a volume, from a file or from memory, plain or compressed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "common/files/file.h"

namespace coldframe::frames {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // More bytes than this it cannot give; compressed sources overestimate.
  virtual std::uint64_t size_limit() const = 0;
  // Fills `bytes` as far as the content goes and returns how many there were. DataError, without
  // the file's name, for compressed data that is damaged.
  virtual std::size_t read_some(std::uint64_t offset, std::span<std::byte> bytes) = 0;
  // Reading will come back to `offset`, where compressed sources then begin anew.
  virtual void mark(std::uint64_t) {}
  // Everything up to `end` was read: verifies what follows of compressed data (its checksum).
  virtual void finish(std::uint64_t) {}

  // Fills all of `bytes`; DataError that says where the content ends otherwise.
  void read_at(std::uint64_t offset, std::span<std::byte> bytes);
};

class FileBytes : public ByteSource {
 public:
  explicit FileBytes(const std::filesystem::path& path) : file_(path) {}
  std::uint64_t size_limit() const override { return file_.size(); }
  std::size_t read_some(std::uint64_t offset, std::span<std::byte> bytes) override {
    return file_.read_some(offset, bytes);
  }

 private:
  InputFile file_;
};

// The bytes must outlive it.
class MemoryBytes : public ByteSource {
 public:
  explicit MemoryBytes(std::string_view bytes) : bytes_(bytes) {}
  std::uint64_t size_limit() const override { return bytes_.size(); }
  std::size_t read_some(std::uint64_t offset, std::span<std::byte> bytes) override;

 private:
  std::string_view bytes_;
};

// The source itself, or what it decompresses to if it starts as gzip does (RFC 1952).
std::unique_ptr<ByteSource> decompressed(std::unique_ptr<ByteSource> source);

}  // namespace coldframe::frames

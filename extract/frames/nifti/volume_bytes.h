// Bytes of a volume: its file's, or what they decompress to if they start as gzip does (RFC 1952).
#pragma once

#include <memory>

#include "common/files/bytes/byte_source.h"

namespace coldframe::frames {

class GzipStream;

class VolumeBytes {
 public:
  explicit VolumeBytes(std::shared_ptr<const ByteSource> source);
  ~VolumeBytes();

  // If true, damage anywhere may spoil all content.
  bool compressed() const { return gzip_ != nullptr; }
  // An upper bound on the content's bytes; too high for compressed data.
  std::uint64_t size_limit() const;
  // Fills `bytes` as far as the content goes and returns how many there were. DataError, without
  // the file's name, for compressed data that is damaged.
  std::size_t read_some(std::uint64_t offset, std::span<std::byte> bytes);
  // Fills all of `bytes`; DataError that says where the content ends otherwise.
  void read_at(std::uint64_t offset, std::span<std::byte> bytes);
  // Reading will come back to `offset`, where decompression then begins anew.
  void mark(std::uint64_t offset);
  // Everything up to `end` was read: verifies what follows of compressed data (its checksum).
  void finish(std::uint64_t end);

 private:
  std::shared_ptr<const ByteSource> source_;
  std::unique_ptr<GzipStream> gzip_;  // nullptr unless it is compressed
};

}  // namespace coldframe::frames

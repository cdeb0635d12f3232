// Object headers of version 2 and their messages (HDF5 File Format Specification 3.0, IV.A.1.b).
// Internal to cache/hdf5.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cache/hdf5/file_reader.h"
#include "common/files/bytes/byte_source.h"

namespace coldframe::cache::hdf5 {

inline constexpr std::uint64_t kNoAddress = ~std::uint64_t{0};

// Supported message types (IV.A.2), and those that are rejected by name.
enum class MessageKind : std::uint8_t {
  kNil = 0x00,
  kDataspace = 0x01,
  kLinkInfo = 0x02,
  kDatatype = 0x03,
  kFillValueOld = 0x04,
  kFillValue = 0x05,
  kLink = 0x06,
  kExternalFiles = 0x07,
  kLayout = 0x08,
  kGroupInfo = 0x0a,
  kFilters = 0x0b,
  kAttribute = 0x0c,
  kContinuation = 0x10,
  kModificationTime = 0x12,
  kAttributeInfo = 0x15,
  kReferenceCount = 0x16,
};

struct Message {
  MessageKind kind;
  bool shared;  // its content lies elsewhere
  std::span<const std::byte> body;
};

struct ObjectHeader {
  std::vector<std::vector<std::byte>> blocks;  // what the messages point into
  std::vector<Message> messages;

  // Null when there is none. CacheError when there are several.
  const Message* find(MessageKind kind) const;
};

// Reads the headers of one file. All of them together may be no larger than the file and in no more
// blocks than a million, so that headers that point at each other come to an end.
class HeaderReader {
 public:
  HeaderReader(const ByteSource& store, Checksums checksums);
  ObjectHeader read(std::uint64_t address);  // CacheError

 private:
  std::vector<std::byte> block(std::uint64_t address, std::uint64_t size);

  const ByteSource& store_;
  const Checksums checksums_;
  std::uint64_t bytes_left_, blocks_left_;
};

// Bytes of the file, bounded before they are allocated. CacheError beyond its end.
std::vector<std::byte> read_block(const ByteSource& store, std::uint64_t address,
                                  std::uint64_t size);

}  // namespace coldframe::cache::hdf5

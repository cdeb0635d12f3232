#include "cache/format/trailer.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "cache/format/format.h"
#include "common/cli/error.h"
#include "common/files/fingerprint.h"
#include "common/text/text.h"

namespace coldframe::cache {
namespace {

constexpr std::size_t kBlock = 256u << 10;  // stays in the second-level cache

// The superblock of version 3 (HDF5 File Format Specification, II.A): signature, version, sizes of
// offsets and lengths, flags, base address, extension address, end of file, …
constexpr unsigned char kSignature[] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
constexpr std::size_t kSuperblockBytes = 48;
constexpr std::size_t kVersionAt = 8, kOffsetSizeAt = 9, kLengthSizeAt = 10, kEndOfFileAt = 28;
constexpr unsigned char kSuperblockVersion = 3;

std::array<std::byte, 16> digest_of_first(const ByteSource& bytes, std::uint64_t size) {
  Xxh3Stream stream;
  std::vector<std::byte> block(std::min<std::uint64_t>(kBlock, size));
  for (std::uint64_t at = 0; at < size; at += block.size()) {
    const auto part = std::span(block).first(std::min<std::uint64_t>(block.size(), size - at));
    bytes.read_at(at, part);
    stream.update(part);
  }
  return stream.digest();
}

std::uint64_t end_of_hdf5(const InputFile& file) {
  const std::string name = file.path().string();
  if (file.size() == 0) throw CacheError(name + ": is empty (0 bytes), not a Coldframe cache");
  std::array<unsigned char, kSuperblockBytes> head{};
  file.read_some(0, std::as_writable_bytes(std::span(head)));
  if (std::memcmp(head.data(), kSignature, sizeof kSignature) != 0)
    throw CacheError(name + ": not an HDF5 file, hence not a Coldframe cache");
  if (head[kVersionAt] != kSuperblockVersion || head[kOffsetSizeAt] != 8 ||
      head[kLengthSizeAt] != 8)
    throw CacheError(name +
                     ": an HDF5 file, but not one that Coldframe wrote (other superblock version)");
  std::uint64_t end = 0;
  std::memcpy(&end, head.data() + kEndOfFileAt, sizeof end);
  return end;
}

}  // namespace

std::array<std::byte, 16> digest_of(const ByteSource& bytes) {
  return digest_of_first(bytes, bytes.size());
}

std::unique_ptr<InputFile> open_unchecked(const std::filesystem::path& path) {
  return std::make_unique<InputFile>(
      path, [](const std::filesystem::path& file, std::string_view reason) {
        throw CacheError(concat(file.string(), ": ", reason));
      });
}

std::unique_ptr<InputFile> open_checked(const std::filesystem::path& path) {
  auto file = open_unchecked(path);
  const std::uint64_t size = file->size(), end = end_of_hdf5(*file);
  if (end == size)
    throw CacheError(concat(path.string(),
                            ": an HDF5 file without Coldframe's checksum at its end; "
                            "another program wrote or changed it"));
  if (size < kTrailerBytes || end != size - kTrailerBytes)
    throw CacheError(concat(path.string(), ": truncated or damaged: ", size, " bytes where ", end,
                            " + ", kTrailerBytes, " were expected"));
  std::array<std::byte, kTrailerBytes> trailer{};
  file->read_at(end, trailer);
  if (digest_of_first(*file, end) != trailer)
    throw CacheError(path.string() +
                     ": damaged: its content does not match the checksum at its end; restore the "
                     "file, or delete it and extract again");
  file->hide_from(end);
  return file;
}

}  // namespace coldframe::cache

#include "cache/hdf5/checksums.h"

#include <bit>

#include "cache/format/format.h"
#include "cache/hdf5/messages.h"
#include "cache/hdf5/object_header.h"
#include "common/cli/error.h"

namespace coldframe::cache::hdf5 {
namespace {

std::uint32_t byte_at(std::span<const std::byte> bytes, std::size_t at) {
  return std::to_integer<std::uint32_t>(bytes[at]);
}

// Little-endian, of at most 4 bytes.
std::uint32_t word_at(std::span<const std::byte> bytes, std::size_t at) {
  std::uint32_t word = 0;
  for (std::size_t i = 0; i < 4 && at + i < bytes.size(); ++i)
    word |= byte_at(bytes, at + i) << 8 * i;
  return word;
}

void require_checksum(std::span<const std::byte> with_checksum, auto checksum) {
  const std::size_t size = with_checksum.size() - kChecksumBytes;
  if (word_at(with_checksum, size) != checksum(with_checksum.first(size)))
    throw CacheError("damaged: one of HDF5's own checksums does not match");
}

}  // namespace

// Bob Jenkins, lookup3.c, hashlittle().
std::uint32_t lookup3(std::span<const std::byte> bytes) {
  std::uint32_t a = 0xdeadbeef + static_cast<std::uint32_t>(bytes.size()), b = a, c = a;
  for (; bytes.size() > 12; bytes = bytes.subspan(12)) {
    a += word_at(bytes, 0), b += word_at(bytes, 4), c += word_at(bytes, 8);
    a -= c, a ^= std::rotl(c, 4), c += b;
    b -= a, b ^= std::rotl(a, 6), a += c;
    c -= b, c ^= std::rotl(b, 8), b += a;
    a -= c, a ^= std::rotl(c, 16), c += b;
    b -= a, b ^= std::rotl(a, 19), a += c;
    c -= b, c ^= std::rotl(b, 4), b += a;
  }
  if (bytes.empty()) return c;
  a += word_at(bytes, 0), b += word_at(bytes, 4), c += word_at(bytes, 8);
  c ^= b, c -= std::rotl(b, 14);
  a ^= c, a -= std::rotl(c, 11);
  b ^= a, b -= std::rotl(a, 25);
  c ^= b, c -= std::rotl(b, 16);
  a ^= c, a -= std::rotl(c, 4);
  b ^= a, b -= std::rotl(a, 14);
  c ^= b, c -= std::rotl(b, 24);
  return c;
}

// Sums of big-endian 16-bit words modulo 65535. A sum of 0 is stored as 65535, unless all words are
// 0.
std::uint32_t fletcher32(std::span<const std::byte> bytes) {
  constexpr std::size_t kWords = 360;  // whose sums 32 bits hold
  const auto fold = [](std::uint32_t sum) { return (sum & 0xffff) + (sum >> 16); };
  std::uint32_t sum = 0, of_sums = 0;
  for (std::size_t at = 0; at < bytes.size();) {
    for (std::size_t i = 0; i < kWords && at < bytes.size(); ++i, at += 2) {
      sum += byte_at(bytes, at) << 8 | (at + 1 < bytes.size() ? byte_at(bytes, at + 1) : 0);
      of_sums += sum;
    }
    sum = fold(sum), of_sums = fold(of_sums);
  }
  return fold(of_sums) << 16 | fold(sum);
}

std::vector<std::byte> read_metadata_block(const ByteSource& store, std::uint64_t address,
                                           std::uint64_t size, Checksums checksums) {
  if (checksums == Checksums::kIgnored) return read_block(store, address, size);
  std::vector<std::byte> bytes = read_block(store, address, size + kChecksumBytes);
  require_checksum(bytes, lookup3);
  bytes.resize(size);
  return bytes;
}

void check_chunk(const ByteSource& store, const Extent& chunk) {
  require_checksum(read_block(store, chunk.begin, chunk.end - chunk.begin), fletcher32);
}

}  // namespace coldframe::cache::hdf5

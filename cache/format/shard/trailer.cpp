#include "cache/format/shard/trailer.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "cache/format/format.h"
#include "common/cli/error.h"
#include "common/files/fingerprint.h"
#include "common/files/publish/atomic_file.h"
#include "common/files/retry_policy.h"
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

using Digest = std::array<std::byte, kDigestBytes>;

// Passes the bytes from `begin` to `end` on.
void update(Xxh3Stream& stream, const ByteSource& bytes, std::uint64_t begin, std::uint64_t end) {
  std::vector<std::byte> block(std::min<std::uint64_t>(kBlock, end - begin));
  for (std::uint64_t at = begin; at < end; at += block.size()) {
    const auto part = std::span(block).first(std::min<std::uint64_t>(block.size(), end - at));
    bytes.read_at(at, part);
    stream.update(part);
  }
}

Digest digest_of_first(const ByteSource& bytes, std::uint64_t size) {
  Xxh3Stream stream;
  update(stream, bytes, 0, size);
  return stream.digest();
}

// The chunks of features, cut and thumbnails, in the order of the file.
std::vector<hdf5::Extent> bulk_of(const hdf5::FileReader& reader) {
  std::vector<std::string> datasets;
  for (const std::string& group : reader.names("/")) {
    if (group == kFeatures || group == kCut)
      for (const std::string& view : reader.names(group))
        datasets.push_back(join_path(group, view));
    if (group == kThumbnails) datasets.push_back(kThumbnailData);
  }
  std::vector<hdf5::Extent> bulk;
  for (const std::string& path : datasets) {
    const std::vector<hdf5::Extent> chunks = reader.dataset(path).chunks();
    bulk.insert(bulk.end(), chunks.begin(), chunks.end());
  }
  std::sort(bulk.begin(), bulk.end(),
            [](const hdf5::Extent& a, const hdf5::Extent& b) { return a.begin < b.begin; });
  return bulk;
}

Digest metadata_digest(const ByteSource& bytes, const hdf5::FileReader& reader) {
  Xxh3Stream stream;
  std::uint64_t at = 0;
  for (const hdf5::Extent& chunk : bulk_of(reader)) {
    if (chunk.begin > at) update(stream, bytes, at, chunk.begin);
    at = std::max(at, chunk.end);
  }
  if (at < bytes.size()) update(stream, bytes, at, bytes.size());
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

void require_trailer(const InputFile& file, std::uint64_t end) {
  const std::uint64_t size = file.size();
  if (size >= kTrailerBytes && end == size - kTrailerBytes) return;
  if (end == size)
    throw CacheError(concat(file.path().string(),
                            ": an HDF5 file without Coldframe's checksum at its end, which h5py "
                            "(mode r+) and HDFView cut off when they only open and close a file; "
                            "`coldframe cache verify --repair` of the cache compares all that it "
                            "holds, and writes the checksum anew"));
  throw CacheError(concat(file.path().string(), ": truncated or damaged: ", size, " bytes where ",
                          end, " + ", kTrailerBytes, " were expected"));
}

// True if the last bytes are the checksum of all before them.
bool is_whole(const InputFile& file) {
  Digest expected{};
  file.read_at(file.size() - expected.size(), expected);
  return digest_of_first(file, file.size() - expected.size()) == expected;
}

[[noreturn]] void refuse_damage(const std::filesystem::path& path) {
  throw CacheError(path.string() +
                   ": damaged: its content does not match the checksum at its end; restore the "
                   "file, or delete it and extract again");
}

// CacheError: not the structure that this format has.
CheckedFile with_reader(CheckedFile file, hdf5::Checksums checksums) {
  try {
    file.reader = std::make_unique<hdf5::FileReader>(*file.bytes, checksums);
  } catch (const CacheError& error) {
    throw CacheError(concat(file.bytes->path().string(), ": ", error.what()));
  }
  return file;
}

}  // namespace

std::array<std::byte, kTrailerBytes> trailer_of(const ByteSource& bytes) {
  const Digest metadata = metadata_digest(bytes, hdf5::FileReader(bytes));
  Xxh3Stream whole;
  update(whole, bytes, 0, bytes.size());
  whole.update(metadata);
  std::array<std::byte, kTrailerBytes> trailer{};
  std::ranges::copy(metadata, trailer.begin());
  std::ranges::copy(whole.digest(), trailer.begin() + kDigestBytes);
  return trailer;
}

bool lacks_trailer(const std::filesystem::path& path) {
  const auto file = open_unchecked(path);
  return end_of_hdf5(*file) == file->size();
}

void write_trailer(const std::filesystem::path& path) {
  with_patience(path, [&] {
    const auto bytes = open_unchecked(path);
    AtomicFile file(path);
    std::vector<std::byte> block(kBlock);
    for (std::uint64_t at = 0; at < bytes->size(); at += kBlock) {
      block.resize(std::min<std::uint64_t>(kBlock, bytes->size() - at));
      bytes->read_at(at, block);
      file.append(block);
    }
    file.append(trailer_of(*bytes));
    file.finish();
  });
}

std::unique_ptr<InputFile> open_unchecked(const std::filesystem::path& path) {
  return std::make_unique<InputFile>(
      path, [](const std::filesystem::path& file, std::string_view reason) {
        throw CacheError(concat(file.string(), ": ", reason));
      });
}

CheckedFile open_checked(const std::filesystem::path& path, Check check) {
  CheckedFile file{open_unchecked(path), nullptr, 0};
  const InputFile& bytes = *file.bytes;
  file.size = bytes.size();
  const std::uint64_t end = end_of_hdf5(bytes);
  if (check == Check::kWithoutTrailer)
    return with_reader(std::move(file), hdf5::Checksums::kCompared);
  require_trailer(bytes, end);
  if (check == Check::kWhole && !is_whole(bytes)) refuse_damage(path);
  Digest expected{};
  bytes.read_at(end, expected);
  file.bytes->set_end(end);
  std::string fault;
  try {
    file = with_reader(std::move(file), hdf5::Checksums::kIgnored);
    if (metadata_digest(bytes, *file.reader) == expected) return file;
  } catch (const CacheError& error) {
    fault = error.what();
  }
  // A structure that makes no sense is damage, unless the writer meant it so.
  if (fault.empty() || !is_whole(*open_unchecked(path))) refuse_damage(path);
  throw CacheError(fault);
}

}  // namespace coldframe::cache

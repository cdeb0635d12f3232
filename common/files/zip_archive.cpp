#include "common/files/zip_archive.h"

#include <zlib.h>

#include <algorithm>

#include "common/cli/error.h"
#include "common/files/bytes.h"
#include "common/text/text.h"

namespace coldframe {

namespace {

constexpr std::uint32_t kLocalHeader = 0x04034b50;
constexpr std::uint32_t kDirectoryHeader = 0x02014b50;
constexpr std::uint32_t kDirectoryEnd = 0x06054b50;
constexpr std::uint32_t kZip64End = 0x06064b50;
constexpr std::uint32_t kZip64Locator = 0x07064b50;
constexpr std::uint64_t kDirectoryEndSize = 22, kLocatorSize = 20, kZip64EndSize = 56;
constexpr std::uint64_t kLocalHeaderSize = 30, kDirectoryHeaderSize = 46;
// This leaves room for half a million entries.
constexpr std::uint64_t kMaxDirectory = 64u << 20;

struct Directory {
  std::uint64_t offset, size, count;
};

[[noreturn]] void damaged(const std::string& what) {
  throw DataError(concat("damaged zip archive: ", what, "; copy or download the file again"));
}

// The end record lies behind everything but a comment of at most 65535 bytes.
std::uint64_t find_directory_end(const ByteSource& file) {
  const std::uint64_t tail_size = std::min<std::uint64_t>(file.size(), kDirectoryEndSize + 0xffff);
  const std::string bytes = file.read(file.size() - tail_size, tail_size);
  const ByteCursor tail(bytes);
  for (std::uint64_t i = tail_size - std::min(tail_size, kDirectoryEndSize) + 1; i-- > 0;) {
    if (i + kDirectoryEndSize > tail_size || tail.u32(i) != kDirectoryEnd) continue;
    if (i + kDirectoryEndSize + tail.u16(i + 20) == tail_size) return file.size() - tail_size + i;
  }
  damaged("its end record is missing (a truncated file)");
}

Directory find_directory(const ByteSource& file) {
  const std::uint64_t end = find_directory_end(file);
  const std::string end_bytes = file.read(end, kDirectoryEndSize);
  const ByteCursor record(end_bytes);
  Directory directory{record.u32(16), record.u32(12), record.u16(10)};
  if (end >= kLocatorSize) {
    const std::string locator_bytes = file.read(end - kLocatorSize, kLocatorSize);
    const ByteCursor locator(locator_bytes);
    if (locator.u32(0) == kZip64Locator) {
      const std::string zip64_bytes = file.read(locator.u64(8), kZip64EndSize);
      const ByteCursor zip64(zip64_bytes);
      if (zip64.u32(0) != kZip64End) damaged("its zip64 end record is not where it says");
      directory = {zip64.u64(48), zip64.u64(40), zip64.u64(32)};
    }
  }
  if (directory.offset > end || directory.size > end - directory.offset)
    damaged("its directory lies outside the file");
  if (directory.size > kMaxDirectory || directory.count > directory.size / kDirectoryHeaderSize)
    damaged("its directory's size and number of entries contradict each other");
  return directory;
}

// The zip64 extra field holds, in this order, those of the three values whose 32 bits are all ones.
void apply_zip64_extra(ByteCursor<> extra, std::uint64_t& size, std::uint64_t& stored,
                       std::uint64_t& header) {
  while (extra.left() >= 4) {
    const std::uint64_t id = extra.number(2), length = extra.number(2);
    if (length > extra.left()) damaged("an extra field is longer than its header");
    ByteCursor<> field(extra.take(length));
    if (id != 1) continue;
    for (std::uint64_t* value : {&size, &stored, &header}) {
      if (*value != 0xffffffff) continue;
      if (field.left() < 8) damaged("a zip64 field is cut short");
      *value = field.number(8);
    }
  }
}

}  // namespace

ZipArchive::ZipArchive(const ByteSource& file) : file_(file) {
  const Directory directory = find_directory(file);
  read_directory(directory.offset, directory.size, directory.count);
}

void ZipArchive::read_directory(std::uint64_t offset, std::uint64_t size, std::uint64_t count) {
  const std::string bytes = file_.read(offset, size);
  ByteCursor cursor(bytes);
  for (std::uint64_t i = 0; i < count; ++i) {
    if (cursor.left() < kDirectoryHeaderSize) damaged("its directory is cut short");
    const ByteCursor header(cursor.take(kDirectoryHeaderSize));
    if (header.u32(0) != kDirectoryHeader) damaged(concat("entry ", i, " has no header"));
    const std::uint64_t name_size = header.u16(28), extra_size = header.u16(30);
    const std::uint64_t comment_size = header.u16(32);
    if (name_size + extra_size + comment_size > cursor.left())
      damaged("its directory is cut short");
    const std::string name(cursor.text(name_size));
    std::uint64_t stored = header.u32(20);
    ZipEntry entry{header.u32(24), header.u32(42), header.u32(16), true};
    apply_zip64_extra(ByteCursor<>(cursor.take(extra_size)), entry.size, stored, entry.header);
    entry.stored = header.u16(10) == 0 && stored == entry.size && (header.u16(8) & 1) == 0;
    if (entry.header > file_.size() || stored > file_.size() - entry.header)
      damaged(concat("entry '", name, "' lies outside the file"));
    if (!entries_.emplace(name, entry).second) damaged(concat("'", name, "' is there twice"));
    cursor.take(comment_size);
  }
}

const ZipEntry& ZipArchive::entry(std::string_view name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) damaged(concat("entry '", name, "' is missing"));
  return found->second;
}

void ZipArchive::read(std::string_view name, std::span<std::byte> bytes) const {
  const ZipEntry& found = entry(name);
  if (!found.stored)
    throw DataError(
        concat("the zip entry '", name, "' is compressed or encrypted; it is not read"));
  if (bytes.size() != found.size)
    damaged(concat("entry '", name, "' has ", found.size, " bytes instead of ", bytes.size()));
  const std::string header_bytes = file_.read(found.header, kLocalHeaderSize);
  const ByteCursor header(header_bytes);
  if (header.u32(0) != kLocalHeader)
    damaged(concat("entry '", name, "' has no header where the directory says"));
  // The local extra field differs from the directory's: torch.save pads it to align the content.
  file_.read_at(found.header + kLocalHeaderSize + header.u16(26) + header.u16(28), bytes);
  const auto crc = crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
  // After torch.serialization.set_crc32_options(False) every CRC-32 in the file is zero.
  if (found.crc32 != 0 && crc != found.crc32)
    damaged(concat("the checksum of entry '", name, "' does not match"));
}

std::string ZipArchive::read(std::string_view name) const {
  const std::uint64_t size = entry(name).size;
  if (size > file_.size()) damaged(concat("entry '", name, "' is larger than the file"));
  std::string bytes(size, '\0');
  read(name, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

}  // namespace coldframe

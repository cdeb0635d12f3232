#include "extract/vit/checkpoint/zip_archive.h"

#include <zlib.h>

#include <algorithm>

#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe::vit {

namespace {

constexpr std::uint32_t kLocalHeader = 0x04034b50;
constexpr std::uint32_t kDirectoryHeader = 0x02014b50;
constexpr std::uint32_t kDirectoryEnd = 0x06054b50;
constexpr std::uint32_t kZip64End = 0x06064b50;
constexpr std::uint32_t kZip64Locator = 0x07064b50;
constexpr std::uint64_t kDirectoryEndSize = 22, kLocatorSize = 20, kZip64EndSize = 56;
constexpr std::uint64_t kLocalHeaderSize = 30, kDirectoryHeaderSize = 46;
// A checkpoint has one entry a tensor: this leaves room for half a million of them.
constexpr std::uint64_t kMaxDirectory = 64u << 20;

struct Directory {
  std::uint64_t offset, size, count;
};

[[noreturn]] void damaged(const std::string& what) {
  throw DataError(concat("damaged zip archive: ", what, "; copy or download the file again"));
}

// The end record lies behind everything but a comment of at most 65535 bytes.
std::uint64_t find_directory_end(FileReader& file) {
  const std::uint64_t tail_size = std::min<std::uint64_t>(file.size(), kDirectoryEndSize + 0xffff);
  const std::string tail = file.read_at(file.size() - tail_size, tail_size);
  for (std::uint64_t i = tail_size - std::min(tail_size, kDirectoryEndSize) + 1; i-- > 0;) {
    if (i + kDirectoryEndSize > tail_size || little_u32(&tail[i]) != kDirectoryEnd) continue;
    if (i + kDirectoryEndSize + little_u16(&tail[i + 20]) == tail_size)
      return file.size() - tail_size + i;
  }
  damaged("its end record is missing (a truncated file)");
}

Directory find_directory(FileReader& file) {
  const std::uint64_t end = find_directory_end(file);
  const std::string record = file.read_at(end, kDirectoryEndSize);
  Directory directory{little_u32(&record[16]), little_u32(&record[12]), little_u16(&record[10])};
  if (end >= kLocatorSize) {
    const std::string locator = file.read_at(end - kLocatorSize, kLocatorSize);
    if (little_u32(&locator[0]) == kZip64Locator) {
      const std::string zip64 = file.read_at(little_u64(&locator[8]), kZip64EndSize);
      if (little_u32(&zip64[0]) != kZip64End) damaged("its zip64 end record is not where it says");
      directory = {little_u64(&zip64[48]), little_u64(&zip64[40]), little_u64(&zip64[32])};
    }
  }
  if (directory.offset > end || directory.size > end - directory.offset)
    damaged("its directory lies outside the file");
  if (directory.size > kMaxDirectory || directory.count > directory.size / kDirectoryHeaderSize)
    damaged("its directory's size and number of entries contradict each other");
  return directory;
}

// The zip64 extra field holds, in this order, those of the three values whose 32 bits are all ones.
void apply_zip64_extra(std::string_view extra, std::uint64_t& size, std::uint64_t& stored,
                       std::uint64_t& header) {
  while (extra.size() >= 4) {
    const std::uint16_t id = little_u16(extra.data()), length = little_u16(extra.data() + 2);
    if (length > extra.size() - 4) damaged("an extra field is longer than its header");
    std::string_view field = extra.substr(4, length);
    extra.remove_prefix(4 + std::size_t{length});
    if (id != 1) continue;
    for (std::uint64_t* value : {&size, &stored, &header}) {
      if (*value != 0xffffffff) continue;
      if (field.size() < 8) damaged("a zip64 field is cut short");
      *value = little_u64(field.data());
      field.remove_prefix(8);
    }
  }
}

}  // namespace

ZipArchive::ZipArchive(FileReader& file) : file_(file) {
  const Directory directory = find_directory(file);
  read_directory(directory.offset, directory.size, directory.count);
}

void ZipArchive::read_directory(std::uint64_t offset, std::uint64_t size, std::uint64_t count) {
  const std::string bytes = file_.read_at(offset, size);
  std::uint64_t at = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    if (size - at < kDirectoryHeaderSize) damaged("its directory is cut short");
    const char* header = &bytes[at];
    if (little_u32(header) != kDirectoryHeader) damaged(concat("entry ", i, " has no header"));
    const std::uint64_t name_size = little_u16(header + 28), extra_size = little_u16(header + 30);
    const std::uint64_t length =
        kDirectoryHeaderSize + name_size + extra_size + little_u16(header + 32);
    if (length > size - at) damaged("its directory is cut short");
    const std::string name(header + kDirectoryHeaderSize, name_size);
    std::uint64_t stored = little_u32(header + 20);
    ZipEntry entry{little_u32(header + 24), little_u32(header + 42), little_u32(header + 16), true};
    apply_zip64_extra({header + kDirectoryHeaderSize + name_size, extra_size}, entry.size, stored,
                      entry.header);
    entry.stored =
        little_u16(header + 10) == 0 && stored == entry.size && (little_u16(header + 8) & 1) == 0;
    if (entry.header > file_.size() || stored > file_.size() - entry.header)
      damaged(concat("entry '", name, "' lies outside the file"));
    if (!entries_.emplace(name, entry).second) damaged(concat("'", name, "' is there twice"));
    at += length;
  }
}

const ZipEntry& ZipArchive::entry(std::string_view name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) damaged(concat("entry '", name, "' is missing"));
  return found->second;
}

void ZipArchive::read(std::string_view name, std::span<char> bytes) {
  const ZipEntry& found = entry(name);
  if (!found.stored)
    throw DataError(concat("the zip entry '", name,
                           "' is compressed or encrypted, which torch.save never does; save the "
                           "checkpoint again with torch.save"));
  if (bytes.size() != found.size)
    damaged(concat("entry '", name, "' has ", found.size, " bytes instead of ", bytes.size()));
  const std::string header = file_.read_at(found.header, kLocalHeaderSize);
  if (little_u32(&header[0]) != kLocalHeader)
    damaged(concat("entry '", name, "' has no header where the directory says"));
  // The local extra field differs from the directory's: torch.save pads it to align the content.
  const std::uint64_t content =
      found.header + kLocalHeaderSize + little_u16(&header[26]) + little_u16(&header[28]);
  file_.read_at(content, bytes);
  const auto crc = crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
  // After torch.serialization.set_crc32_options(False) every CRC-32 in the file is zero.
  if (found.crc32 != 0 && crc != found.crc32)
    damaged(concat("the checksum of entry '", name, "' does not match"));
}

std::string ZipArchive::read(std::string_view name) {
  const std::uint64_t size = entry(name).size;
  if (size > file_.size()) damaged(concat("entry '", name, "' is larger than the file"));
  std::string bytes(size, '\0');
  read(name, std::span<char>(bytes));
  return bytes;
}

}  // namespace coldframe::vit

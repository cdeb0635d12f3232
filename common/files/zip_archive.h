// The part of the zip format that torch.save and numpy.savez write: stored entries, zip64.
// PKWARE APPNOTE.TXT 6.3, sections 4.3.7 to 4.3.16.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "common/files/bytes.h"

namespace coldframe {

struct ZipEntry {
  std::uint64_t size = 0;    // bytes of the stored content
  std::uint64_t header = 0;  // where the entry's local header starts
  std::uint32_t crc32 = 0;
  bool stored = true;  // neither compressed nor encrypted
};

class ZipArchive {
 public:
  // Reads the central directory; DataError if damaged. The file must outlive the archive.
  explicit ZipArchive(const ByteSource& file);

  const std::map<std::string, ZipEntry, std::less<>>& entries() const { return entries_; }
  const ZipEntry& entry(std::string_view name) const;  // DataError if there is none

  // Fills `bytes`, which has the size of a stored entry, and checks the CRC-32.
  void read(std::string_view name, std::span<std::byte> bytes) const;
  std::string read(std::string_view name) const;

 private:
  void read_directory(std::uint64_t offset, std::uint64_t size, std::uint64_t count);

  const ByteSource& file_;
  std::map<std::string, ZipEntry, std::less<>> entries_;
};

}  // namespace coldframe

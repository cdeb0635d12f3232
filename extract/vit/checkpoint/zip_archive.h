// The part of the zip format that torch.save writes: stored (uncompressed) entries, zip64.
// PKWARE APPNOTE.TXT 6.3, sections 4.3.7 to 4.3.16.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "extract/vit/checkpoint/file_reader.h"

namespace coldframe::vit {

struct ZipEntry {
  std::uint64_t size = 0;    // bytes of the stored content
  std::uint64_t header = 0;  // where the entry's local header starts
  std::uint32_t crc32 = 0;
  bool stored = true;  // neither compressed nor encrypted
};

class ZipArchive {
 public:
  explicit ZipArchive(FileReader& file);  // reads the central directory; DataError if damaged

  const std::map<std::string, ZipEntry, std::less<>>& entries() const { return entries_; }
  const ZipEntry& entry(std::string_view name) const;  // DataError if there is none

  // Fills `bytes`, which has the entry's size, and checks the CRC-32.
  void read(std::string_view name, std::span<char> bytes);
  std::string read(std::string_view name);

 private:
  void read_directory(std::uint64_t offset, std::uint64_t size, std::uint64_t count);

  FileReader& file_;
  std::map<std::string, ZipEntry, std::less<>> entries_;
};

}  // namespace coldframe::vit

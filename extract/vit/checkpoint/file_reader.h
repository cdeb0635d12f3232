// Reads of a weights file at given offsets, each held against the file's true length.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>

namespace coldframe::vit {

class FileReader {
 public:
  explicit FileReader(const std::filesystem::path& path);  // DataError if unreadable or no file

  std::uint64_t size() const { return size_; }
  // DataError when [offset, offset + bytes.size()) is not inside the file.
  void read_at(std::uint64_t offset, std::span<char> bytes);
  std::string read_at(std::uint64_t offset, std::uint64_t length);

 private:
  std::ifstream stream_;
  std::uint64_t size_ = 0;
};

// Little-endian integers out of a buffer; the caller has checked that they lie inside it.
std::uint16_t little_u16(const char* bytes);
std::uint32_t little_u32(const char* bytes);
std::uint64_t little_u64(const char* bytes);

}  // namespace coldframe::vit

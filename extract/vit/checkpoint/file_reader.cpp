#include "extract/vit/checkpoint/file_reader.h"

#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe::vit {

namespace {

std::uint64_t little(const char* bytes, int count) {
  std::uint64_t value = 0;
  for (int i = count - 1; i >= 0; --i) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

}  // namespace

FileReader::FileReader(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error))
    throw DataError("there is no such file; check the path");
  size_ = std::filesystem::file_size(path, error);
  if (!error) stream_.open(path, std::ios::binary);
  if (error || !stream_) throw DataError("the file cannot be opened for reading");
}

void FileReader::read_at(std::uint64_t offset, std::span<char> bytes) {
  if (offset > size_ || bytes.size() > size_ - offset)
    throw DataError(concat("truncated: bytes ", offset, " to ", offset + bytes.size(),
                           " are needed, the file has ", size_));
  stream_.clear();
  stream_.seekg(static_cast<std::streamoff>(offset));
  stream_.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!stream_) throw DataError(concat("the file cannot be read at byte ", offset));
}

std::string FileReader::read_at(std::uint64_t offset, std::uint64_t length) {
  if (offset > size_ || length > size_ - offset)
    throw DataError(concat("truncated: ", length, " bytes are needed at byte ", offset,
                           ", the file has ", size_));
  std::string bytes(length, '\0');
  read_at(offset, std::span<char>(bytes));
  return bytes;
}

std::uint16_t little_u16(const char* bytes) {
  return static_cast<std::uint16_t>(little(bytes, 2));
}
std::uint32_t little_u32(const char* bytes) {
  return static_cast<std::uint32_t>(little(bytes, 4));
}
std::uint64_t little_u64(const char* bytes) {
  return little(bytes, 8);
}

}  // namespace coldframe::vit

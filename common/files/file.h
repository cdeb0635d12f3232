// Reading files that nobody vouches for: regular files only, sizes known before anything is
// allocated, every failure a DataError that names the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace coldframe {

class InputFile {
 public:
  explicit InputFile(std::filesystem::path path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::uint64_t size() const { return size_; }  // when it was opened

  // Fills `bytes` from `offset` as far as the file goes and returns how many there were.
  std::size_t read_some(std::uint64_t offset, std::span<std::byte> bytes) const;
  // Fills all of `bytes`; DataError if the file ends before.
  void read_at(std::uint64_t offset, std::span<std::byte> bytes) const;

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

// The whole content; DataError when it has more than `limit` bytes.
std::string read_text_file(const std::filesystem::path& path, std::uint64_t limit);

}  // namespace coldframe

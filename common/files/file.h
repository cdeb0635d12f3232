// Reading files that nobody vouches for: regular files only, sizes known before anything is
// allocated.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/files/bytes.h"

namespace coldframe {

// Throws a room's error for a file that cannot be read.
using RefuseFile = void (*)(const std::filesystem::path& path, std::string_view reason);
[[noreturn]] void refuse_by_name(const std::filesystem::path& path, std::string_view reason);
// The same DataError without the path, where the caller adds it to every error.
[[noreturn]] void refuse_unnamed(const std::filesystem::path& path, std::string_view reason);

// Reads what the file held when it was opened, and never beyond that. Errors that pass are waited
// for (retry_policy.h), and the file is opened anew then.
class InputFile final : public ByteSource {
 public:
  explicit InputFile(std::filesystem::path path, RefuseFile refuse = refuse_by_name);
  ~InputFile() override;
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  // Device, inode, size and modification time: equal for two opens of one unchanged file.
  const std::string& identity() const { return identity_; }
  std::uint64_t size() const override { return size_; }
  void set_end(std::uint64_t end) { size_ = end; }  // what lies behind it; at most the size
  std::size_t read_some(std::uint64_t offset, std::span<std::byte> bytes) const override;
  std::uint64_t bytes_read() const { return bytes_read_; }  // so far

 private:
  [[noreturn]] void refuse(std::string_view reason) const override;
  void reopen() const;

  std::filesystem::path path_;
  std::string identity_;
  RefuseFile refuse_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
  mutable std::atomic<std::uint64_t> bytes_read_ = 0;
};

// The entries of a folder, in no order; none where there is no such folder. SystemError.
std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder);

// The whole content; DataError when it has more than `limit` bytes.
std::string read_text_file(const std::filesystem::path& path, std::uint64_t limit);

}  // namespace coldframe

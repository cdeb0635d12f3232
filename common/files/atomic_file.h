// A file that appears whole or not at all: written under a temporary name in the same folder,
// synced, renamed, and the folder synced. The only place in Coldframe that publishes bytes to disk,
// and the place in which tests make the disk fail.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace coldframe {

class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);  // SystemError if the folder cannot be written
  ~AtomicFile();  // abandons: removes the temporary file, never throws
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void append(std::span<const std::byte> bytes);
  void append(std::string_view text);
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);
  void read_at(std::uint64_t offset,
               std::span<std::byte> bytes) const;  // beyond the end reads zeros
  void truncate(std::uint64_t size);
  std::uint64_t size() const { return size_; }

  // fsync, rename over `path`, fsync the folder. After it returns the file survives a power cut;
  // when it throws the temporary file is gone.
  void finish();
  // The same, but no file that is there is ever replaced, whoever publishes beside us, on other
  // machines too: where `path` is taken, `next` is asked for names in the same folder until one is
  // free.
  void finish_as_new(const std::function<std::filesystem::path()>& next);
  bool finish_if_new();  // false, and nothing is published, when `path` is taken

 private:
  void abandon() noexcept;
  void sync();
  bool publish_new();  // false: another file has the name

  std::filesystem::path path_, temporary_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

void write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes);
void write_file_atomically(const std::filesystem::path& path, std::string_view text);

// Removes a file and syncs its folder.
void remove_file_durably(const std::filesystem::path& path);

// Renames a file or a folder within its folder, and syncs that.
void rename_durably(const std::filesystem::path& from, const std::filesystem::path& to);

// Creates a folder and those above it that are missing, and syncs the folders that hold them.
// Returns quietly if it is there; SystemError otherwise.
void create_folders_durably(const std::filesystem::path& folder);

// Fault injection for tests: called before operation `name` ("open", "write", "read", "truncate",
// "fsync", "rename" (also of a link), "reserve", "replace" (of what is reserved), "fsync_folder",
// "unlink", "mkdir") on `path` (of a rename: the new name; of an fsync_folder: the folder). Returns
// the errno with which it fails, 0 to let it happen, or kShortWrite to let a write store half of
// its bytes. Empty: no faults.
constexpr int kShortWrite = -1;
using FileFaultHook = std::function<int(std::string_view name, const std::filesystem::path& path)>;
void set_file_fault_hook(FileFaultHook hook);

}  // namespace coldframe

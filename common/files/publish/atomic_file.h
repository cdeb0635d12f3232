// A file that appears whole or not at all: written under a temporary name in the same folder,
// synced, renamed, and the folder synced. The only place in Coldframe that publishes bytes to disk.
// Symbolic links at its name are followed, and what it replaces keeps its owner and permissions. A
// stream (outputs.h) is never replaced: it gets all bytes in the end.
#pragma once

#include <sys/types.h>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/files/publish/atomic_file.h"
#include "common/files/publish/file_calls.h"
#include "common/files/publish/publish.h"

namespace coldframe {

class AtomicFile {
 public:
  // `mode`: of a new file, less the umask. SystemError if the folder cannot be written.
  explicit AtomicFile(std::filesystem::path path, mode_t mode = 0666);
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
  void sync();  // fsync; the ways to finish begin with it

  // fsync, rename over `path`, fsync the folder. After it returns the file survives a power cut;
  // when it throws the temporary file is gone. kKeep: SystemError when something has the name.
  void finish(Existing existing = Existing::kReplace);
  // The same, but no file that is there is ever replaced, whoever publishes beside us, on other
  // machines too: where `path` is taken, `next` is asked for names in the same folder until one is
  // free.
  void finish_as_new(const std::function<std::filesystem::path()>& next);
  bool finish_if_new();  // false, and nothing is published, when `path` is taken

 private:
  void abandon() noexcept;
  bool publish_new();  // false: another file has the name
  bool fill_stream();  // false: it is a file

  // That of messages. Bytes for a stream lie elsewhere, and another disk may be full.
  const std::filesystem::path& place() const { return is_stream_ ? temporary_ : path_; }

  std::filesystem::path path_, temporary_;
  bool is_stream_ = false;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

void write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes,
                           Existing existing = Existing::kReplace);
void write_file_atomically(const std::filesystem::path& path, std::string_view text,
                           Existing existing = Existing::kReplace);

// Removes what killed processes of this host left of files that were to have this name. Those of
// processes that live, and of other hosts, stay.
void remove_stale_temporaries(const std::filesystem::path& path);

// Removes a file and syncs its folder.
void remove_file_durably(const std::filesystem::path& path);

// Creates a folder and those above it that are missing, and syncs the folders that hold them.
// Returns quietly if it is there; SystemError otherwise.
void create_folders_durably(const std::filesystem::path& folder);

// Files that belong together: none appears before all of them are written, and where one cannot
// take its name, those that appeared before it are taken back.

class FileSet {
 public:
  // kKeep: finish() replaces nothing. kReplace: what was replaced does not come back.
  explicit FileSet(Existing existing) : existing_(existing) {}

  AtomicFile& add(const std::filesystem::path& path);  // they appear in the order of these calls
  void finish();

 private:
  void take_back(std::size_t files) const;

  Existing existing_;
  std::vector<std::filesystem::path> paths_;
  std::vector<std::unique_ptr<AtomicFile>> files_;
};

}  // namespace coldframe

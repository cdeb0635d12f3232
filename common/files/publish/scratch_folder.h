// A folder of one's own for files that are not to stay.
#pragma once

#include <filesystem>
#include <optional>

#include "common/files/file_lock.h"

namespace coldframe {

// Made in `parent` (empty: the system's temporary folder, TMPDIR), and removed with everything in
// it. What killed processes of this host left in `parent` goes as well: each is locked while in
// use. SystemError when it cannot be made.
class ScratchFolder {
 public:
  explicit ScratchFolder(std::filesystem::path parent = {});
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  std::optional<FolderLock> lock_;
};

}  // namespace coldframe

// Files that belong together: none appears before all of them are written, and where one cannot
// take its name, those that appeared before it are taken back.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "common/files/publish/atomic_file.h"

namespace coldframe {

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

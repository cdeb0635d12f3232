#include "common/files/publish/file_set.h"

#include "common/files/publish/destination.h"

namespace coldframe {

namespace fs = std::filesystem;

AtomicFile& FileSet::add(const fs::path& path) {
  paths_.push_back(link_target(path));  // where the file appears
  return *files_.emplace_back(std::make_unique<AtomicFile>(path));
}

void FileSet::take_back(std::size_t files) const {
  std::error_code ignored;
  if (existing_ == Existing::kReplace) return;
  for (std::size_t i = 0; i < files; ++i)
    if (!is_stream(paths_[i])) fs::remove(paths_[i], ignored);
}

void FileSet::finish() {
  for (const auto& file : files_) file->sync();  // a full disk shows before any of them appears
  std::size_t files = 0;
  try {
    for (; files < files_.size(); ++files) files_[files]->finish(existing_);
  } catch (...) {
    take_back(files);
    throw;
  }
}

}  // namespace coldframe

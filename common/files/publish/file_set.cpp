#include "common/files/publish/file_set.h"

#include <utility>

#include "common/files/publish/destination.h"

namespace coldframe {

namespace fs = std::filesystem;

AtomicFile& FileSet::add(const fs::path& path) {
  paths_.push_back(link_target(path));  // where the file appears
  return *files_.emplace_back(std::make_unique<AtomicFile>(path));
}

void FileSet::add_folder(const fs::path& made, const fs::path& out, RequireOwn require_own) {
  folders_.push_back({made, out, std::move(require_own)});
}

void FileSet::take_back(std::size_t folders, std::size_t files) const {
  std::error_code ignored;
  if (existing_ == Existing::kReplace) return;
  for (std::size_t i = 0; i < files; ++i)
    if (!is_stream(paths_[i])) fs::remove(paths_[i], ignored);
  for (std::size_t i = 0; i < folders; ++i) fs::rename(folders_[i].out, folders_[i].made, ignored);
}

void FileSet::finish() {
  for (const auto& file : files_) file->sync();  // a full disk shows before any of them appears
  std::size_t folders = 0, files = 0;
  try {
    for (; folders < folders_.size(); ++folders) {
      const Folder& folder = folders_[folders];
      publish(folder.made, folder.out, existing_, folder.require_own);
    }
    for (; files < files_.size(); ++files) files_[files]->finish(existing_);
  } catch (...) {
    take_back(folders, files);
    throw;
  }
}

}  // namespace coldframe

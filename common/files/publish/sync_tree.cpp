// The syncing of folders: see publish.h.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "common/cli/error.h"
#include "common/files/file.h"
#include "common/files/publish/file_calls.h"
#include "common/files/publish/publish.h"

namespace coldframe {
namespace {

namespace fs = std::filesystem;
using file_calls::attempt;
using file_calls::injected_fault;
using file_calls::OpenFile;
using file_calls::refuse;

void sync_file(const fs::path& path) {
  const OpenFile file(path);
  if (attempt(injected_fault("fsync", path), [&] { return ::fsync(file.descriptor()); }) < 0)
    refuse("write", path, errno);
}

// A temporary file of another process, or what NFS keeps of a file that is open, may vanish between
// two calls, and needs no syncing then.
template <typename Call>
void unless_it_vanishes(const fs::path& path, const Call& call) {
  try {
    call();
  } catch (const Error&) {
    std::error_code error;
    if (fs::exists(fs::symlink_status(path, error))) throw;
  }
}

void list_tree(const fs::path& folder, std::vector<fs::path>& files,
               std::vector<fs::path>& folders) {
  folders.push_back(folder);
  for (const fs::path& entry : entries_of(folder)) {
    std::error_code error;
    const fs::file_status status = fs::symlink_status(entry, error);
    if (fs::is_directory(status)) list_tree(entry, files, folders);
    if (fs::exists(status) && !fs::is_directory(status) && !fs::is_symlink(status))
      files.push_back(entry);
  }
}

}  // namespace

// All are sent to the disk before the first is waited for: then one commit of a journal holds them.
void sync_tree(const fs::path& path) {
  if (!fs::is_directory(path)) return sync_file(path);
  std::vector<fs::path> files, folders;
  list_tree(path, files, folders);
  for (const fs::path& file : files)
    unless_it_vanishes(
        file, [&] { ::sync_file_range(OpenFile(file).descriptor(), 0, 0, SYNC_FILE_RANGE_WRITE); });
  for (const fs::path& file : files) unless_it_vanishes(file, [&] { sync_file(file); });
  for (const fs::path& folder : folders)
    unless_it_vanishes(folder, [&] { file_calls::sync_folder(folder / "."); });
}

}  // namespace coldframe

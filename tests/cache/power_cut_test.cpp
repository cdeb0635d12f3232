// The power fails before every operation in turn: what was not synced is gone, and every exam that
// was acknowledged is still there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>

#include "cache/tool/verify.h"
#include "common/files/publish/atomic_file.h"
#include "tests/cache/support.h"

namespace coldframe::cache {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// A disk holds this at the least: the content that a file had when it was synced last, under the
// names that its folder had when that was synced last. It is told of every operation before it
// happens.
class Disk {
 public:
  explicit Disk(fs::path root) : root_(std::move(root)) {
    sync_folder(root_);
    for (const auto& entry : fs::recursive_directory_iterator(root_))
      entry.is_directory() ? sync_folder(entry.path()) : sync(entry.path());
  }

  void before(std::string_view operation, const fs::path& path) {
    if (last_ == "fsync") sync(last_path_);
    if (last_ == "fsync_folder") sync_folder(last_path_);
    last_ = operation;
    last_path_ = path;
  }

  // `with_names`: folders are as they look now, and only the content of files may be missing.
  void cut(const fs::path& copy, bool with_names) const { copy_folder(root_, copy, with_names); }

 private:
  static ino_t inode(const fs::path& path) {
    struct stat status = {};
    if (::stat(path.c_str(), &status) != 0) throw std::runtime_error("no " + path.string());
    return status.st_ino;
  }

  void sync(const fs::path& file) { contents_[inode(file)] = read_bytes(file); }

  static std::map<std::string, ino_t> names_in(const fs::path& folder) {
    std::map<std::string, ino_t> names;
    for (const auto& entry : fs::directory_iterator(folder))
      names[entry.path().filename().string()] = inode(entry.path());
    return names;
  }

  void sync_folder(const fs::path& folder) {
    folders_[inode(folder)] = names_in(folder);
    for (const auto& entry : fs::directory_iterator(folder))
      if (entry.is_directory()) is_folder_[inode(entry.path())] = entry.path();
  }

  void copy_folder(const fs::path& folder, const fs::path& copy, bool with_names) const {
    fs::create_directory(copy);
    std::map<std::string, ino_t> names;
    if (with_names) {
      names = names_in(folder);
    } else if (fs::exists(folder)) {
      const auto known = folders_.find(inode(folder));
      if (known != folders_.end()) names = known->second;
    }
    for (const auto& [name, file] : names) {
      if (fs::is_directory(folder / name) || is_folder_.count(file) != 0) {
        copy_folder(folder / name, copy / name, with_names);
      } else {
        const auto content = contents_.find(file);
        write_bytes(copy / name,
                    content == contents_.end() ? std::vector<std::byte>{} : content->second);
      }
    }
  }

  fs::path root_, last_path_;
  std::string last_;
  std::map<ino_t, std::vector<std::byte>> contents_;
  std::map<ino_t, std::map<std::string, ino_t>> folders_;
  std::map<ino_t, fs::path> is_folder_;
};

struct PowerCut {
  const char* name;
  const char* path;
  bool with_names;
};

void PrintTo(const PowerCut& cut, std::ostream* out) {
  *out << cut.name;
}

// Extends the cache under `root` in a process of its own up to operation `last`, then leaves in
// `copy` what the disk holds. False when the job has fewer operations.
bool extend_until(int last, const PowerCut& cut, const fs::path& root, const fs::path& copy,
                  const fs::path& log) {
  const pid_t child = ::fork();
  if (child == 0) {
    Disk disk(root);
    int count = 0;
    set_file_fault_hook([&](std::string_view operation, const fs::path& path) {
      disk.before(operation, path);
      if (count++ == last) {
        disk.cut(copy, cut.with_names);
        ::_exit(0);
      }
      return 0;
    });
    extend_cache(root / cut.path, log);
    ::_exit(1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) <= 1) << status;
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

class PowerCuts : public ::testing::TestWithParam<PowerCut> {};

TEST_P(PowerCuts, LoseNothingThatWasAcknowledged) {
  int operations = 0;
  for (;; ++operations) {
    SCOPED_TRACE("operation " + std::to_string(operations));
    const MemoryFolder folder;
    fs::create_directory(folder / "before");
    write_cache(folder / "before" / GetParam().path, {make_exam("0", 0, 5, 40)},
                one_exam_a_shard());
    if (!extend_until(operations, GetParam(), folder / "before", folder / "after", folder / "log"))
      break;
    const fs::path path = folder / "after" / GetParam().path;
    expect_acknowledged(path, folder / "log");
    extend_cache(path, folder / "log");
    EXPECT_EQ(entries(folder / "after").size(), 1u);
    EXPECT_EQ(CacheReader(path).exams().size(), 4u);
    for (const Finding& finding : verify(locate(path)).findings)
      EXPECT_THAT(finding.problem, HasSubstr("with equal content")) << "added again, as told";
    if (HasFailure()) return;
  }
  EXPECT_GT(operations, 10);
}

INSTANTIATE_TEST_SUITE_P(Everywhere, PowerCuts,
                         ::testing::Values(PowerCut{"Folder", "x.cache", false},
                                           PowerCut{"FolderWithNames", "x.cache", true},
                                           PowerCut{"File", "x.h5", false},
                                           PowerCut{"FileWithNames", "x.h5", true}),
                         [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace coldframe::cache

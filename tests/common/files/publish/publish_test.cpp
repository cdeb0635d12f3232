// A folder that replaces another, on file systems that exchange names and on others: whoever is
// killed on the way leaves the old one or the new one whole.
#include "common/files/publish/publish.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <vector>

#include "common/cli/error.h"
#include "common/files/file_lock.h"
#include "common/files/publish/file_calls.h"
#include "tests/support/temporary_folder.h"

namespace coldframe {
namespace {

namespace fs = std::filesystem;
using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::Eq;
using ::testing::HasSubstr;
using testing::TemporaryFolder;

constexpr const char* kAside = "out.coldframe-replaced";
constexpr const char* kLock = "out.coldframe-replaced.lock";

// kOverlay: a folder in a lower layer can neither be exchanged nor be renamed.
enum class FileSystem { kLocal, kWithoutFlags, kOverlay };

class Replacing : public ::testing::TestWithParam<FileSystem> {
 protected:
  Replacing() { EXPECT_TRUE(fs::create_directory(folder_ / "scratch")); }
  ~Replacing() override { set_file_fault_hook({}); }

  void make() const {
    for (const char* each : {"out", "scratch/made"}) {
      fs::remove_all(folder_ / each);
      fs::create_directories(folder_ / each / "in");
      for (const char* name : {"a", "b", "in/c"})
        folder_.write(std::string(each) + "/" + name, each == std::string("out") ? "old" : "new");
    }
  }
  int fault(std::string_view call, const fs::path& path) const {
    const bool renames = call == "rename", exchanges = call == "exchange";
    if (GetParam() == FileSystem::kWithoutFlags) return renames || exchanges ? EINVAL : 0;
    if (GetParam() != FileSystem::kOverlay) return 0;
    const bool of_lower = renames && path == folder_ / kAside && !fs::exists(copy());
    return exchanges || of_lower ? EXDEV : 0;
  }
  fs::path copy() const { return folder_ / (std::string(kAside) + ".partial"); }
  void replace() const {
    publish(folder_ / "scratch/made", folder_ / "out", Existing::kReplace, [](const fs::path&) {});
  }
  // What is whole under the name: "old" or "new".
  std::string content(const std::string& name) const {
    std::string all;
    for (const char* file : {"/a", "/b", "/in/c"}) all += folder_.read(name + file);
    return all == "oldoldold" ? "old" : all == "newnewnew" ? "new" : "torn: " + all;
  }
  TemporaryFolder folder_;
};

TEST_P(Replacing, SyncsEverythingFirstAndLeavesTheOldOneToBeRemoved) {
  make();
  std::vector<std::string> synced;
  set_file_fault_hook([&](std::string_view call, const fs::path& path) {
    if (call == "fsync") synced.push_back(path.filename());
    return fault(call, path);
  });
  replace();
  for (const char* file : {"a", "b", "c"}) EXPECT_THAT(synced, Contains(file));
  EXPECT_EQ(content("out"), "new");
  EXPECT_EQ(content("scratch/made"), "old");
  EXPECT_EQ(folder_.names().size(), 2u);
}

TEST_P(Replacing, AKillAtAnyCallLeavesTheOldOneOrTheNewOneWhole) {
  bool done = false;
  for (int last = 0; !done; ++last) {
    SCOPED_TRACE(last);
    make();
    const pid_t child = ::fork();
    if (child == 0) {
      int calls = 0;
      set_file_fault_hook([&](std::string_view call, const fs::path& path) {
        if (calls++ == last) ::_exit(1);
        return fault(call, path);
      });
      replace();
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    done = WEXITSTATUS(status) == 0;
    put_back(folder_ / "out");
    ASSERT_THAT(content("out"), AnyOf(Eq("new"), Eq(done ? "new" : "old")));
    set_file_fault_hook([this](auto call, const fs::path& path) { return fault(call, path); });
    fs::remove_all(folder_ / "scratch/made");
    make();
    replace();  // what the killed one left is in nobody's way
    set_file_fault_hook({});
    ASSERT_EQ(content("out"), "new");
    ASSERT_EQ(folder_.names().size(), 2u);
    ASSERT_LT(last, 100);
  }
}

// As a kill leaves it between the copy and the rename.
TEST_P(Replacing, ARestOfTheOldOneIsNotTakenForIt) {
  make();
  fs::copy(folder_ / "out", folder_ / kAside, fs::copy_options::recursive);
  fs::remove(folder_ / "out/b");
  put_back(folder_ / "out");
  EXPECT_TRUE(fs::exists(folder_ / kAside)) << "no process was killed there";
  folder_.write(kLock, "process 7 on host");
  put_back(folder_ / "out");
  EXPECT_EQ(content("out"), "old");
  EXPECT_EQ(folder_.names().size(), 2u);
}

TEST_P(Replacing, TheOldOneIsFoundByWhateverName) {
  fs::create_directory_symlink("out", folder_ / "link");
  for (const char* name : {"out", "out/", "link", "link/", "./out"}) {
    SCOPED_TRACE(name);
    make();
    fs::rename(folder_ / "out", folder_ / kAside);
    folder_.write(kLock, "process 7 on host");
    put_back(folder_ / name);
    EXPECT_EQ(content("out"), "old");
    EXPECT_FALSE(fs::exists(folder_ / kAside));
  }
}

TEST_P(Replacing, NobodyMeddlesWithOneAtWork) {
  if (GetParam() == FileSystem::kLocal) return;  // one step
  make();
  bool met = false;
  set_file_fault_hook([&](std::string_view call, const fs::path& path) {
    if (fs::exists(folder_ / kAside) && !fs::exists(folder_ / "out") && !met) {
      met = true;
      put_back(folder_ / "out");
      EXPECT_FALSE(fs::exists(folder_ / "out"));
      EXPECT_TRUE(fs::exists(folder_ / kAside));
    }
    return fault(call, path);
  });
  replace();
  EXPECT_TRUE(met);
  EXPECT_EQ(content("out"), "new");
  set_file_fault_hook([this](auto call, const fs::path& path) { return fault(call, path); });
  fs::remove_all(folder_ / "scratch/made");
  make();
  const FileLock held(folder_ / kLock, {});
  EXPECT_THAT(testing::message_of<SystemError>([this] { replace(); }),
              HasSubstr("another process is replacing"));
  EXPECT_EQ(content("out"), "old");
}

TEST_P(Replacing, TheTrueErrorIsTold) {
  make();
  bool undoes = false;
  set_file_fault_hook([&](std::string_view call, const fs::path& path) {
    const bool renames = call == "rename" || call == "exchange" || call == "reserve";
    return undoes && renames ? EACCES : fault(call, path);
  });
  int looks = 0;
  const auto refuse = [&](const fs::path&) {
    if (++looks < 2) return;
    undoes = true;
    throw ConfigError("a thesis");
  };
  EXPECT_EQ(testing::message_of<ConfigError>([&] {
              publish(folder_ / "scratch/made", folder_ / "out", Existing::kReplace, refuse);
            }),
            "a thesis");
}

TEST_P(Replacing, WhatVanishesNeedsNoSyncing) {
  make();
  set_file_fault_hook([&](std::string_view call, const fs::path& path) {
    if (call == "fsync")
      for (const char* name : {"a", "b", "in"})
        if (path.filename() != name) fs::remove_all(folder_ / "out" / name);
    return 0;
  });
  EXPECT_NO_THROW(sync_tree(folder_ / "out"));
  EXPECT_THROW(sync_tree(folder_ / "none"), SystemError);
}

std::string name_of_file_system(const ::testing::TestParamInfo<FileSystem>& each) {
  constexpr std::array kNames = {"Local", "WithoutFlags", "Overlay"};
  return kNames[static_cast<std::size_t>(each.param)];
}

INSTANTIATE_TEST_SUITE_P(FileSystems, Replacing,
                         ::testing::Values(FileSystem::kLocal, FileSystem::kWithoutFlags,
                                           FileSystem::kOverlay),
                         name_of_file_system);

}  // namespace
}  // namespace coldframe

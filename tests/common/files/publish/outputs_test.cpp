#include "common/files/publish/outputs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cli/error.h"
#include "common/files/file_lock.h"
#include "common/files/publish/atomic_file.h"
#include "tests/support/temporary_folder.h"

namespace coldframe {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;
using testing::TemporaryFolder;

class OutputsTest : public ::testing::Test {
 protected:
  ~OutputsTest() override { set_file_fault_hook({}); }
  std::string refusal(const NamedOutput& output, const std::vector<NamedInput>& inputs,
                      Overwrite overwrite = Overwrite::kNotSaid) const {
    return message_of<ConfigError>([&] { check_outputs({output}, inputs, overwrite); });
  }
  TemporaryFolder folder_;
};

TEST_F(OutputsTest, AreReplacedOnlyWhereThatIsSaid) {
  const NamedOutput out{"--out", folder_.write("x.csv", "mine")};
  EXPECT_THAT(refusal(out, {}), AllOf(HasSubstr("--out"), HasSubstr("x.csv' is there already"),
                                      HasSubstr("say --overwrite")));
  EXPECT_EQ(refusal(out, {}, Overwrite::kCannot).find("--overwrite"), std::string::npos);
  check_outputs({out}, {}, Overwrite::kSaid);
  NamedOutput own = out;
  own.may_stand = [](const fs::path&) { return true; };
  check_outputs({own}, {}, Overwrite::kCannot);
  fs::create_symlink("nowhere", folder_ / "link");  // something has the name
  EXPECT_THAT(refusal({"--out", folder_ / "link"}, {}), HasSubstr("is there already"));
}

TEST_F(OutputsTest, AreNoInputs) {
  const fs::path table = folder_.write("labels.csv", "exam,label\n");
  fs::create_directories(folder_ / "run" / "x.cache");
  fs::create_hard_link(table, folder_ / "other name.csv");
  const std::vector<NamedInput> inputs = {
      {"--labels", table}, {"--cache", folder_ / "run" / "x.cache"}, {"--none", ""}};
  for (const char* name : {"labels.csv", "run/../labels.csv", "other name.csv"})
    EXPECT_THAT(refusal({"--monitor", folder_ / name}, inputs, Overwrite::kSaid),
                HasSubstr("is --labels"));
  const NamedOutput run{"--out", folder_ / "run" / "", [](const fs::path&) { return true; }};
  EXPECT_THAT(refusal(run, inputs, Overwrite::kSaid), HasSubstr("holds --cache"));
  check_outputs({run}, inputs, Overwrite::kCannot);  // it is added to
  folder_.write("run/x.cache/shard.h5", "");
  EXPECT_THAT(refusal({"--out", folder_ / "run/x.cache/shard.h5"}, inputs, Overwrite::kSaid),
              HasSubstr("lies in --cache"));
  check_outputs({{"--out", folder_ / "run/x.cache/new.csv"}}, inputs, Overwrite::kNotSaid);
}

TEST_F(OutputsTest, AreTwoFilesInFoldersThatAreThere) {
  const fs::path one = folder_ / "x.csv";
  EXPECT_THAT(message_of<ConfigError>([&] {
                check_outputs({{"--out", one}, {"--explain", folder_ / "./x.csv"}}, {},
                              Overwrite::kNotSaid);
              }),
              HasSubstr("--out and --explain name the same file"));
  EXPECT_THAT(refusal({"--out", folder_ / "none/x.csv"}, {}), HasSubstr("there is no folder"));
}

// The name under which a process that is gone was writing `path`.
std::string left_by_dead_process(const fs::path& path) {
  const pid_t child = ::fork();
  if (child == 0) {
    new AtomicFile(path);
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  for (const auto& entry : fs::directory_iterator(path.parent_path()))
    if (entry.path().extension() == ".tmp") return entry.path().filename();
  return "";
}

TEST_F(OutputsTest, OfKilledProcessesAreClearedAwayAndNoOthers) {
  const std::string dead = left_by_dead_process(folder_ / "x.csv");
  ASSERT_THAT(dead, ::testing::StartsWith(".x.csv."));
  std::string elsewhere = dead;  // of another host
  elsewhere[std::string(".x.csv.").size()] = dead[7] == '0' ? '1' : '0';
  folder_.write(elsewhere, "");
  folder_.write("." + dead.substr(3), "");  // of another file
  AtomicFile living(folder_ / "x.csv");
  check_outputs({{"--out", folder_ / "x.csv"}}, {}, Overwrite::kNotSaid);
  EXPECT_EQ(folder_.names().count(dead), 0u);
  EXPECT_EQ(folder_.names().count(elsewhere), 1u);
  EXPECT_EQ(folder_.names().size(), 3u);
  living.finish(Existing::kKeep);
}

// What a test expects to be nobody's but the program's.
void refuse_thesis(const fs::path& path) {
  if (fs::exists(path / "thesis")) throw ConfigError("a thesis");
}

class PublishTest : public OutputsTest, public ::testing::WithParamInterface<bool> {
 protected:
  PublishTest() {
    set_file_fault_hook([this](std::string_view name, const fs::path&) {
      last_call_ = name;
      return GetParam() && (name == "rename" || name == "exchange") ? EINVAL : 0;
    });
    make("made", "new");
  }
  fs::path make(const char* name, const char* file) const {
    fs::create_directory(folder_ / name);
    folder_.write(std::string(name) + "/" + file, file);
    return folder_ / name;
  }
  fs::path made_ = folder_ / "made", out_ = folder_ / "out";
  std::string last_call_;
};

TEST_P(PublishTest, AFolderTakesAFreeNameAndNoOther) {
  EXPECT_TRUE(rename_if_new(made_, out_));
  EXPECT_EQ(last_call_, "fsync_folder") << "a power cut would take the name";
  EXPECT_EQ(folder_.read("out/new"), "new");
  make("made", "newer");
  EXPECT_FALSE(rename_if_new(made_, out_));
  EXPECT_THAT(message_of<SystemError>([&] { publish(made_, out_, Existing::kKeep, {}); }),
              AllOf(HasSubstr("out'"), HasSubstr("is not replaced")));
  folder_.write("file", "a thesis");
  EXPECT_FALSE(rename_if_new(made_, folder_ / "file"));
  fs::create_directory(folder_ / "empty");
  EXPECT_FALSE(rename_if_new(made_, folder_ / "empty"));
  EXPECT_EQ(folder_.read("made/newer"), "newer");
}

TEST_P(PublishTest, WhatIsToBeReplacedIsLookedAtBeforeAndAfter) {
  make("out", "old");
  publish(made_, out_, Existing::kReplace, refuse_thesis);
  EXPECT_EQ(folder_.read("out/new"), "new");
  for (const char* replaced : {"made", "made.replaced"}) fs::remove_all(folder_ / replaced);
  make("made", "new");
  folder_.write("out/thesis", "a thesis");
  EXPECT_THROW(publish(made_, out_, Existing::kReplace, refuse_thesis), ConfigError);
  int looks = 0;
  const auto comes_between = [&](const fs::path& path) {
    if (++looks > 1) refuse_thesis(path);
  };
  EXPECT_THROW(publish(made_, out_, Existing::kReplace, comes_between), ConfigError);
  EXPECT_EQ(folder_.read("out/thesis"), "a thesis");
  EXPECT_EQ(folder_.read("made/new"), "new");
}

INSTANTIATE_TEST_SUITE_P(FileSystems, PublishTest, ::testing::Bool(), [](const auto& each) {
  return std::string(each.param ? "WithoutFlags" : "Local");
});

TEST_F(OutputsTest, AFileThatAppearsMeanwhileIsKept) {
  AtomicFile file(folder_ / "x.csv");
  file.append("ours");
  folder_.write("x.csv", "a thesis");
  EXPECT_THAT(message_of<SystemError>([&] { file.finish(Existing::kKeep); }),
              HasSubstr("appeared while this program ran"));
  EXPECT_EQ(folder_.read("x.csv"), "a thesis");
  EXPECT_THAT(folder_.names(), ElementsAre("x.csv"));
}

TEST_F(OutputsTest, ASetAppearsWholeOrNotAtAll) {
  const auto write = [&](Existing existing) {
    FileSet set(existing);
    for (const char* name : {"a", "b", "c"}) set.add(folder_ / name).append("ours");
    set.finish();
  };
  folder_.write("c", "a thesis");
  EXPECT_THROW(write(Existing::kKeep), SystemError);
  EXPECT_THAT(folder_.names(), ElementsAre("c"));
  fs::remove(folder_ / "c");
  set_file_fault_hook([](std::string_view name, const fs::path& path) {
    return name == "fsync" && path.filename().string().starts_with(".c.") ? ENOSPC : 0;
  });
  EXPECT_THROW(write(Existing::kKeep), SystemError);
  EXPECT_THAT(folder_.names(), ElementsAre());
  set_file_fault_hook({});
  write(Existing::kKeep);
  write(Existing::kReplace);
  EXPECT_THAT(folder_.names(), ElementsAre("a", "b", "c"));
}

TEST_F(OutputsTest, WhatALinkLedToIsTakenBackAndTheLinkStays) {
  fs::create_directory(folder_ / "there");
  fs::create_symlink("there/a", folder_ / "a");
  FileSet set(Existing::kKeep);
  for (const char* name : {"a", "b"}) set.add(folder_ / name).append("ours");
  folder_.write("b", "a thesis");
  EXPECT_THROW(set.finish(), SystemError);
  EXPECT_TRUE(fs::is_symlink(folder_ / "a"));
  EXPECT_TRUE(fs::is_empty(folder_ / "there"));
}

TEST_F(OutputsTest, ALockIsSharedOrHeldAlone) {
  LockOptions alone;
  alone.refuse = [](const std::string& holder) { throw CacheError(holder); };
  LockOptions shared = alone;
  shared.shared = true;
  const fs::path path = folder_ / "locks/lock";
  {
    const FileLock one(path, shared), other(path, shared);
    EXPECT_THAT(message_of<CacheError>([&] { FileLock third(path, alone); }),
                HasSubstr("process "));
  }
  {
    const FileLock one(path, alone);
    EXPECT_THROW(FileLock(path, shared), CacheError);
    EXPECT_THAT(holder_at_work(path), HasSubstr(", for "));
  }
  EXPECT_THAT(folder_.names(), ElementsAre());  // with its folder
}

}  // namespace
}  // namespace coldframe

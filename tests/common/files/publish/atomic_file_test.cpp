#include "common/files/publish/atomic_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>
#include <vector>

#include "common/cli/error.h"
#include "common/files/retry_policy.h"
#include "tests/support/temporary_folder.h"

namespace coldframe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;
using testing::TemporaryFolder;

std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

class AtomicFileTest : public ::testing::Test {
 protected:
  ~AtomicFileTest() override {
    set_file_fault_hook({});
    set_patience(0);
  }
  TemporaryFolder folder_;
};

TEST_F(AtomicFileTest, AppearsWholeOnlyAfterFinish) {
  AtomicFile file(folder_ / "a.txt");
  file.append("hello ");
  file.append("world");
  EXPECT_EQ(file.size(), 11u);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "a.txt"));
  file.finish();
  EXPECT_EQ(folder_.read("a.txt"), "hello world");
  EXPECT_THAT(folder_.names(), ElementsAre("a.txt"));
}

TEST_F(AtomicFileTest, AbandonedLeavesTheOldFileAndNothingElse) {
  folder_.write("a.txt", "old");
  {
    AtomicFile file(folder_ / "a.txt");
    file.append("new");
  }
  EXPECT_EQ(folder_.read("a.txt"), "old");
  EXPECT_THAT(folder_.names(), ElementsAre("a.txt"));
}

TEST_F(AtomicFileTest, ThatIsToBeNewTakesTheNextFreeNameWithLinksAndWithout) {
  for (const bool links : {true, false}) {
    folder_.write("0", "another's");
    folder_.write("1", "another's");
    set_file_fault_hook([&](std::string_view name, const std::filesystem::path&) {
      return name == "rename" && !links ? EPERM : 0;
    });
    int number = 0;
    const auto next = [&] { return folder_ / std::to_string(number++); };
    AtomicFile file(next());
    file.append("ours");
    file.finish_as_new(next);
    EXPECT_EQ(folder_.read("0"), "another's");
    EXPECT_EQ(folder_.read("2"), "ours");
    EXPECT_THAT(folder_.names(), ElementsAre("0", "1", "2"));
    AtomicFile late(folder_ / "2");
    EXPECT_FALSE(late.finish_if_new());
    EXPECT_EQ(folder_.read("2"), "ours");
    EXPECT_THAT(folder_.names(), ElementsAre("0", "1", "2"));
    std::filesystem::remove(folder_ / "2");
  }
}

// FUSE and FAT have no links: the name is reserved there, and then replaced.
TEST_F(AtomicFileTest, LeavesNoReservationWhenTheRenameFailsOnce) {
  for (const bool done : {false, true}) {
    set_patience(60);
    int tries = 0;
    set_file_fault_hook([&](std::string_view name, const std::filesystem::path& path) {
      if (name == "replace" && ++tries == 1) {
        for (const std::string& entry : folder_.names())
          if (done && entry.ends_with(".tmp")) std::filesystem::rename(folder_ / entry, path);
        return EIO;
      }
      return name == "rename" ? EPERM : 0;
    });
    int number = 0;
    with_patience(folder_ / "0", [&] {
      AtomicFile file(folder_ / "0");
      file.append("ours");
      file.finish_as_new([&] { return folder_ / std::to_string(++number); });
    });
    EXPECT_EQ(tries, done ? 1 : 2);
    EXPECT_THAT(folder_.names(), ElementsAre("0"));
    EXPECT_EQ(folder_.read("0"), "ours");
    std::filesystem::remove(folder_ / "0");
  }
}

TEST_F(AtomicFileTest, IsPublishedOnceThoughItsFolderCannotBeSynced) {
  set_patience(0.2);
  set_file_fault_hook(
      [](std::string_view name, const auto&) { return name == "fsync_folder" ? EIO : 0; });
  int number = 0;
  EXPECT_THAT(message_of<SystemError>([&] {
                with_patience(folder_ / "0", [&] {
                  AtomicFile file(folder_ / "0");
                  file.finish_as_new([&] { return folder_ / std::to_string(++number); });
                });
              }),
              HasSubstr("sync the folder of"));
  EXPECT_THAT(folder_.names(), ElementsAre("0"));
}

TEST_F(AtomicFileTest, WritesReadsAndTruncatesAtOffsets) {
  AtomicFile file(folder_ / "a.bin");
  file.write_at(4, as_bytes("EFGH"));
  file.write_at(0, as_bytes("AB"));
  std::vector<std::byte> back(10, std::byte{'x'});
  file.read_at(0, back);
  EXPECT_EQ(std::string(reinterpret_cast<char*>(back.data()), 10),
            std::string("AB\0\0EFGH\0\0", 10));
  file.truncate(6);
  EXPECT_EQ(file.size(), 6u);
  file.append("!");
  file.finish();
  EXPECT_EQ(folder_.read("a.bin"), std::string("AB\0\0EF!", 7));
}

TEST_F(AtomicFileTest, TwoWritersOfOnePathDoNotMeet) {
  AtomicFile first(folder_ / "a.txt"), second(folder_ / "a.txt");
  first.append("first");
  second.append("second");
  first.finish();
  second.finish();
  EXPECT_EQ(folder_.read("a.txt"), "second");
}

TEST_F(AtomicFileTest, FollowsTheUmask) {
  const mode_t before = ::umask(027);
  write_file_atomically(folder_ / "a.txt", "x");
  ::umask(before);
  struct stat status = {};
  ASSERT_EQ(::stat((folder_ / "a.txt").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0640u);
}

TEST_F(AtomicFileTest, RefusesPlacesWhereNoFileCanBe) {
  std::filesystem::create_directory(folder_ / "sub");
  folder_.write("file", "x");
  for (const char* name : {"absent/a.txt", "file/a.txt", "sub", "sub/"}) {
    const std::string message = message_of<SystemError>([&] { AtomicFile file(folder_ / name); });
    EXPECT_THAT(message, HasSubstr(name));
  }
  EXPECT_THAT(folder_.names(), ElementsAre("file", "sub"));
}

struct Fault {
  const char* operation;
  bool published;  // whether the new file stands in spite of the failure
};

class AtomicFileFaultTest : public AtomicFileTest, public ::testing::WithParamInterface<Fault> {};

TEST_P(AtomicFileFaultTest, LeavesTheOldOrTheNewFileAndNoTemporaryOne) {
  folder_.write("a.txt", "old");
  set_file_fault_hook(
      [](std::string_view name, const auto&) { return name == GetParam().operation ? ENOSPC : 0; });
  const std::string message =
      message_of<SystemError>([&] { write_file_atomically(folder_ / "a.txt", "new"); });
  EXPECT_THAT(message, HasSubstr("a.txt"));
  EXPECT_THAT(message, HasSubstr("No space left on device; free some space and run the same"));
  EXPECT_EQ(folder_.read("a.txt"), GetParam().published ? "new" : "old");
  EXPECT_THAT(folder_.names(), ElementsAre("a.txt"));
}

INSTANTIATE_TEST_SUITE_P(Operations, AtomicFileFaultTest,
                         ::testing::Values(Fault{"open", false}, Fault{"write", false},
                                           Fault{"fsync", false}, Fault{"rename", false},
                                           Fault{"fsync_folder", true}),
                         [](const auto& test) { return std::string(test.param.operation); });

TEST_F(AtomicFileTest, NothingIsLeftAfterAFailedFinishEvenWhileTheObjectLives) {
  AtomicFile file(folder_ / "a.txt");
  file.append("new");
  set_file_fault_hook([](std::string_view name, const auto&) { return name == "fsync" ? EIO : 0; });
  EXPECT_THROW(file.finish(), SystemError);
  EXPECT_THAT(folder_.names(), ElementsAre());
}

TEST_F(AtomicFileTest, AFaultMidwayInTheWritesIsReportedOnce) {
  int writes = 0;
  set_file_fault_hook([&](std::string_view name, const auto&) {
    return name == "write" && ++writes == 3 ? EFBIG : 0;
  });
  const std::string message = message_of<SystemError>([&] {
    AtomicFile file(folder_ / "a.txt");
    for (int i = 0; i < 5; ++i) file.append("piece");
    file.finish();
  });
  EXPECT_EQ(writes, 3);
  EXPECT_THAT(message, HasSubstr("ulimit -f"));
  EXPECT_THAT(folder_.names(), ElementsAre());
}

TEST_F(AtomicFileTest, TruncateAndUnlinkReportFaultsToo) {
  folder_.write("a.txt", "old");
  set_file_fault_hook([](std::string_view name, const auto&) {
    return name == "truncate" || name == "unlink" ? EPERM : 0;
  });
  AtomicFile file(folder_ / "b.txt");
  EXPECT_THROW(file.truncate(10), SystemError);
  EXPECT_THROW(remove_file_durably(folder_ / "a.txt"), SystemError);
  EXPECT_EQ(folder_.read("a.txt"), "old");
  set_file_fault_hook({});
  remove_file_durably(folder_ / "a.txt");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "a.txt"));
  EXPECT_THROW(remove_file_durably(folder_ / "a.txt"), SystemError);
}

}  // namespace
}  // namespace coldframe

// What is written through links, to devices and pipes, and over files of other owners.
#include "common/files/publish/outputs.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <thread>

#include "common/cli/error.h"
#include "common/cli/interrupt.h"
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

class Destination : public ::testing::Test {
 protected:
  struct stat status(std::string_view name) const {
    struct stat found = {};
    EXPECT_EQ(::stat((folder_ / name).c_str(), &found), 0);
    return found;
  }
  void replace(std::string_view name, std::string_view text) const {
    check_outputs({{"--out", folder_ / name}}, {}, Overwrite::kSaid);
    write_file_atomically(folder_ / name, text, Existing::kReplace);
  }
  std::string refusal(std::string_view name) const {
    return message_of<ConfigError>([&] {
      check_outputs({{"--out", folder_ / name}}, {}, Overwrite::kSaid);
    });
  }
  TemporaryFolder folder_;
};

TEST_F(Destination, LinksAreFollowed) {
  fs::create_directories(folder_ / "there");
  folder_.write("there/x.csv", "old");
  fs::create_symlink("there/x.csv", folder_ / "one");
  fs::create_symlink(folder_ / "one", folder_ / "two");
  fs::create_symlink("there/new.csv", folder_ / "dangling");
  replace("two", "new");
  replace("dangling", "first");
  EXPECT_EQ(folder_.read("there/x.csv"), "new");
  EXPECT_EQ(folder_.read("there/new.csv"), "first");
  for (const char* link : {"one", "two", "dangling"})
    EXPECT_TRUE(fs::is_symlink(folder_ / link)) << link;
  EXPECT_EQ(folder_.names().size(), 4u) << "and nothing temporary beside them";
  fs::create_symlink("round", folder_ / "round");
  EXPECT_THROW(link_target(folder_ / "round"), SystemError);
}

TEST_F(Destination, AFileKeepsItsOwnerAndItsMode) {
  const fs::path old = folder_.write("x.csv", "old");
  fs::permissions(old, fs::perms(0640));
  const bool may_give_away = ::chown(old.c_str(), 1234, 4321) == 0;
  replace("x.csv", "new");
  EXPECT_EQ(folder_.read("x.csv"), "new");
  EXPECT_EQ(status("x.csv").st_mode & 07777, 0640u);
  if (!may_give_away) return;
  EXPECT_EQ(status("x.csv").st_uid, 1234u);
  EXPECT_EQ(status("x.csv").st_gid, 4321u);
}

TEST_F(Destination, AFileWithOtherNamesAndAFolderAreRefused) {
  folder_.write("x.csv", "old");
  fs::create_hard_link(folder_ / "x.csv", folder_ / "other.csv");
  EXPECT_THAT(refusal("x.csv"), HasSubstr("has 2 names"));
  fs::create_directory(folder_ / "folder");
  EXPECT_THAT(refusal("folder"), HasSubstr("is a folder"));
  check_outputs({{"--maps", folder_ / "folder", {}, true}}, {}, Overwrite::kSaid);
  EXPECT_EQ(folder_.read("other.csv"), "old");
}

// /dev/null itself is not for tests.
TEST_F(Destination, ADeviceStaysOne) {
  const fs::path null = folder_ / "null";
  if (::mknod(null.c_str(), S_IFCHR | 0666, makedev(1, 3)) != 0) GTEST_SKIP() << "needs root";
  replace("null", "text");
  check_outputs({{"--out", null}}, {}, Overwrite::kNotSaid);  // nothing is replaced
  write_file_atomically(null, "text", Existing::kKeep);
  EXPECT_TRUE(S_ISCHR(status("null").st_mode));
  EXPECT_THAT(folder_.names(), ElementsAre("null"));
  NamedOutput cache{"--out", null, [](const fs::path&) { return true; }};
  EXPECT_THAT(message_of<ConfigError>([&] { check_outputs({cache}, {}, Overwrite::kSaid); }),
              HasSubstr("is a device or a pipe"));
}

TEST_F(Destination, APipeIsFilledForWhomeverReads) {
  const fs::path pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const std::string text(1 << 20, 'x');  // more than a pipe holds
  std::string read;
  std::thread reader([&] { read = folder_.read("pipe"); });
  replace("pipe", text);
  reader.join();
  EXPECT_EQ(read, text);
  EXPECT_TRUE(S_ISFIFO(status("pipe").st_mode));
  request_stop();
  EXPECT_THROW(write_file_atomically(pipe, text), Interrupted) << "nobody reads";
  clear_stop_request();
}

TEST_F(Destination, ADescriptorsNameGoesOnWhereTheFileIs) {
  const int file = ::open(folder_.write("log", "").c_str(), O_WRONLY);
  ASSERT_EQ(::write(file, "before ", 7), 7);
  write_file_atomically("/dev/fd/" + std::to_string(file), "between ");
  ASSERT_EQ(::write(file, "after", 5), 5);
  ::close(file);
  EXPECT_EQ(folder_.read("log"), "before between after");
}

// As a shell's "> log" makes it. What comes of the check and the text is in the child's exit code.
TEST_F(Destination, StandardOutputGoesOnWhereItsFileIs) {
  const pid_t child = ::fork();
  if (child == 0) {
    const int log = ::open(folder_.write("log", "").c_str(), O_WRONLY);
    ::dup2(log, STDOUT_FILENO);
    try {
      check_outputs({{"--out", "/dev/stdout"}}, {}, Overwrite::kNotSaid);
      bool done = ::write(log, "before ", 7) == 7;
      write_file_atomically("/dev/stdout", "between ", Existing::kKeep);
      done = ::write(log, "after", 5) == 5 && done;
      ::_exit(done ? 0 : 1);
    } catch (const std::exception& error) {
      std::cerr << error.what() << "\n";
      ::_exit(2);
    }
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(folder_.read("log"), "before between after");
}

// What goes to a stream waits on a disk, not in memory, and is gone with the process.
TEST_F(Destination, BytesForAStreamLieInTheTemporaryFolderWithoutAName) {
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  fs::create_directory(folder_ / "tmp");
  const char* const before = std::getenv("TMPDIR");
  const std::string old = before ? before : "";
  ::setenv("TMPDIR", (folder_ / "tmp").c_str(), 1);
  {
    AtomicFile file(folder_ / "pipe");
    EXPECT_TRUE(fs::is_empty(folder_ / "tmp"));
    std::error_code error;
    bool found = false;
    const std::string place = folder_ / "tmp/";
    for (const auto& entry : fs::directory_iterator("/proc/self/fd"))
      found |= fs::read_symlink(entry, error).string().starts_with(place);
    EXPECT_TRUE(found);
    set_file_fault_hook(
        [](std::string_view call, const fs::path&) { return call == "write" ? ENOSPC : 0; });
    EXPECT_THAT(message_of<SystemError>([&] { file.append("text"); }),
                AllOf(HasSubstr("/tmp/"), HasSubstr("free some space")));
    set_file_fault_hook({});
  }
  ::setenv("TMPDIR", (folder_ / "none").c_str(), 1);
  EXPECT_THAT(message_of<SystemError>([&] { AtomicFile file(folder_ / "pipe"); }),
              AllOf(HasSubstr("none"), HasSubstr("TMPDIR")));
  before ? ::setenv("TMPDIR", old.c_str(), 1) : ::unsetenv("TMPDIR");
}

TEST_F(Destination, ASocketIsRefused) {
  sockaddr_un address{AF_UNIX, {}};
  const std::string name = folder_ / "s";
  ASSERT_LT(name.size(), sizeof address.sun_path);
  name.copy(address.sun_path, name.size());
  const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(::bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  EXPECT_THAT(refusal("s"), HasSubstr("is a socket"));
  EXPECT_THROW(AtomicFile(folder_ / "s"), SystemError);
  ::close(socket);
}

TEST_F(Destination, ANameWithoutRoomForTemporaryOnesIsRefusedAtOnce) {
  EXPECT_THAT(refusal(std::string(208, 'n')), HasSubstr("the name has 208 bytes, and 207"));
  replace(std::string(207, 'n'), "whole");
  EXPECT_EQ(folder_.read(std::string(207, 'n')), "whole");
}

}  // namespace
}  // namespace coldframe

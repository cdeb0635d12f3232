// Locks that other users hold or have left, and things that stand where a lock should be.
#include "common/files/file_lock.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <functional>

#include "common/cli/error.h"
#include "tests/support/temporary_folder.h"

namespace {
bool is_nfs = false;
}

extern "C" int flock(int file, int operation) noexcept {
  if (is_nfs && (operation & LOCK_EX) != 0 && (::fcntl(file, F_GETFL) & O_ACCMODE) == O_RDONLY) {
    errno = EBADF;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_flock, file, operation));
}

namespace coldframe {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;
using testing::TemporaryFolder;

LockOptions refusing() {
  LockOptions options;
  options.refuse = [](const std::string& holder) { throw CacheError("held by " + holder); };
  return options;
}

// What `body` throws as a user without rights; "" when it throws nothing.
std::string as_another_user(const std::function<void()>& body) {
  int ends[2] = {};
  if (::pipe(ends) != 0) return "no pipe";
  const pid_t child = ::fork();
  if (child == 0) {
    std::string said;
    try {
      if (::setresgid(65534, 65534, 65534) != 0 || ::setresuid(65534, 65534, 65534) != 0)
        throw std::runtime_error("cannot become another user");
      body();
    } catch (const std::exception& error) {
      said = error.what();
    }
    ::_exit(::write(ends[1], said.data(), said.size()) < 0 ? 1 : 0);
  }
  ::close(ends[1]);
  std::string said(4096, '\0');
  said.resize(static_cast<std::size_t>(std::max<ssize_t>(::read(ends[0], said.data(), 4096), 0)));
  ::close(ends[0]);
  ::waitpid(child, nullptr, 0);
  return said;
}

class FileLockTest : public ::testing::Test {
 protected:
  void SetUp() override { fs::permissions(folder_.path(), fs::perms(0755)); }
  TemporaryFolder folder_;
  const fs::path path_ = folder_ / "lock";
};

class LockOfTwoUsers : public FileLockTest {
  void SetUp() override {
    FileLockTest::SetUp();
    if (::geteuid() != 0) GTEST_SKIP() << "needs root, to be two users";
  }
};

TEST_F(FileLockTest, ALinkInItsPlaceIsRefused) {
  for (const char* target : {"nowhere/lock", "elsewhere"}) {
    fs::remove(path_);
    fs::create_symlink(target, path_);
    EXPECT_THAT(message_of<SystemError>([&] { FileLock(path_, refusing()); }),
                HasSubstr("it is a symbolic link where a lock should be: remove it"));
  }
  fs::create_symlink("nowhere", folder_ / "folder");
  EXPECT_THAT(message_of<SystemError>([&] { FileLock(folder_ / "folder/lock", refusing()); }),
              HasSubstr("folder"));
  EXPECT_FALSE(fs::exists(folder_ / "elsewhere"));
}

TEST_F(FileLockTest, SaysWhatTheSystemSays) {
  fs::create_directory(path_);
  EXPECT_THAT(message_of<SystemError>([&] { FileLock(path_, refusing()); }),
              AllOf(HasSubstr("cannot be opened"), HasSubstr("Is a directory")));
}

TEST_F(LockOfTwoUsers, AnotherUsersProcessIsNamed) {
  const mode_t old = ::umask(077);
  const FileLock held(path_, refusing());
  ::umask(old);
  EXPECT_THAT(as_another_user([&] { FileLock(path_, refusing()); }),
              AllOf(HasSubstr("held by process "), HasSubstr(" of user root")));
  EXPECT_THAT(as_another_user([&] {
                if (holder_at_work(path_).empty()) throw CacheError("unseen");
                throw CacheError(holder_at_work(path_));
              }),
              HasSubstr(" of user root"));
}

// One who was killed leaves his file, in a folder that others may write to or not.
TEST_F(LockOfTwoUsers, WhatAnotherUserLeftCanBeTaken) {
  for (const int folder_mode : {0777, 0755, 01777}) {
    SCOPED_TRACE(folder_mode);
    folder_.write("lock", "process 7 on host");
    fs::permissions(folder_.path(), fs::perms(folder_mode));
    EXPECT_EQ(as_another_user([&] {
                const FileLock one(path_, refusing());
                const int probe = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
                if (::flock(probe, LOCK_SH | LOCK_NB) == 0 || errno != EWOULDBLOCK)
                  throw std::runtime_error("it is not held");
              }),
              "");
    EXPECT_EQ(fs::exists(path_), folder_mode != 0777) << "who may remove it does";
  }
}

TEST_F(LockOfTwoUsers, OneThatMayNotBeReadIsExplained) {
  fs::permissions(folder_.write("lock", ""), fs::perms(0600));
  EXPECT_THAT(as_another_user([&] { FileLock(path_, refusing()); }),
              AllOf(HasSubstr("Permission denied"), HasSubstr("a process of user root"),
                    HasSubstr("have that user remove the file")));
}

TEST_F(LockOfTwoUsers, OnNfsOneThatMayNotBeWrittenToIsExplained) {
  folder_.write("lock", "process 7 on host");
  is_nfs = true;
  EXPECT_THAT(as_another_user([&] { FileLock(path_, refusing()); }),
              AllOf(HasSubstr("may not be written to"), HasSubstr("a process of user root"),
                    HasSubstr("have that user remove the file")));
  is_nfs = false;
}

TEST_F(FileLockTest, AFileIsKnownForALockByItsText) {
  EXPECT_TRUE(is_lock_file(folder_.write("lock", "")));
  EXPECT_FALSE(is_lock_file(folder_.write("lock", "a thesis")));
  const FileLock held(path_, {});
  EXPECT_FALSE(is_lock_file(folder_ / "none"));
}

}  // namespace
}  // namespace coldframe

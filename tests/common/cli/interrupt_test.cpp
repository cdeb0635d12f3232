#include "common/cli/interrupt.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

#include "common/system/memory.h"

namespace {
std::atomic<void (*)()> at_next_look{nullptr};
}

// What comes amid a handler comes when it looks at the clock.
extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  if (const auto act = at_next_look.exchange(nullptr)) act();
  return static_cast<int>(::syscall(SYS_clock_gettime, clock, time));
}

namespace coldframe {
namespace {

TEST(Interrupt, TheFirstSignalOnlyAsks) {
  install_stop_handlers();
  clear_stop_request();
  EXPECT_FALSE(stop_requested());
  ::raise(SIGTERM);
  EXPECT_TRUE(stop_requested());
  clear_stop_request();
  EXPECT_FALSE(stop_requested());
  request_stop();
  EXPECT_TRUE(stop_requested());
  clear_stop_request();
}

TEST(InterruptDeathTest, TheSecondSignalEndsTheProgram) {
  EXPECT_EXIT(
      {
        install_stop_handlers();
        ::raise(SIGINT);
        ::raise(SIGINT);
      },
      ::testing::KilledBySignal(SIGINT), "press Ctrl-C again");
}

TEST(InterruptDeathTest, ASecondTermSoonAfterIsTheSameOne) {
  EXPECT_EXIT(
      {
        install_stop_handlers();
        ::raise(SIGTERM);
        ::raise(SIGTERM);
        ::_exit(stop_requested() ? 7 : 8);
      },
      ::testing::ExitedWithCode(7), "");
}

TEST(InterruptDeathTest, ASecondTermAmidTheHandlerOfTheFirstIsTheSameOne) {
  EXPECT_EXIT(
      {
        install_stop_handlers();
        at_next_look = [] { ::raise(SIGTERM); };
        ::raise(SIGINT);
        ::_exit(stop_requested() ? 7 : 8);
      },
      ::testing::ExitedWithCode(7), "");
}

TEST(InterruptDeathTest, AHangupIsAStopRequestUnlessNohupHasItIgnored) {
  const auto hang_up = [](void (*before)(int), int times) {
    ::signal(SIGHUP, before);
    install_stop_handlers();
    for (int i = 0; i < times; ++i) ::raise(SIGHUP);
    ::_exit(stop_requested() ? 7 : 8);
  };
  EXPECT_EXIT(hang_up(SIG_DFL, 1), ::testing::ExitedWithCode(7), "Ctrl-C again");
  EXPECT_EXIT(hang_up(SIG_DFL, 2), ::testing::ExitedWithCode(7), "Ctrl-C again");
  EXPECT_EXIT(hang_up(SIG_IGN, 2), ::testing::ExitedWithCode(8), "^$");
}

// The kernel keeps from such a process what a signal does by itself. `body` runs in it, and its
// exit code is returned.
int exit_code_as_first_process(void (*body)()) {
  if (::unshare(CLONE_NEWPID) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0) return -1;
  const pid_t first = ::fork();
  if (first == 0) {
    body();
    ::_exit(0);
  }
  int status = 0;
  if (first < 0 || ::waitpid(first, &status, 0) != first) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -2;
}

TEST(InterruptDeathTest, TheSecondSignalEndsTheFirstProcessOfAContainerToo) {
  const auto in_a_container = [] {
    const int code = exit_code_as_first_process([] {
      if (::getpid() != 1) ::_exit(1);
      install_stop_handlers();
      ::raise(SIGINT);
      ::raise(SIGINT);
    });
    ::_exit(code == -1 ? 130 : code);  // this machine lets nobody make such a process
  };
  EXPECT_EXIT(in_a_container(), ::testing::ExitedWithCode(130), "");
}

TEST(InterruptDeathTest, AHeldSignalWaitsForTheHandlers) {
  EXPECT_EXIT(
      {
        hold_stop_signals();
        ::raise(SIGINT);
        install_stop_handlers();
        const bool held = !stop_requested();
        release_stop_signals();
        ::_exit(held && stop_requested() ? 7 : 8);
      },
      ::testing::ExitedWithCode(7), "press Ctrl-C again");
}

TEST(Memory, TheResidentSetGrowsWithWhatIsTouched) {
  const std::uint64_t before = resident_bytes();
  EXPECT_GT(before, 0u);
  const std::string large(64 << 20, 'x');
  EXPECT_GE(resident_bytes(), before + (60u << 20));
  EXPECT_GE(peak_resident_bytes(), resident_bytes());
  EXPECT_EQ(large.back(), 'x');
}

}  // namespace
}  // namespace coldframe

#include "common/cli/interrupt.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <vector>

#include "common/cli/cli.h"
#include "common/system/resources.h"

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

bool become_parent_of_first_process() {
  return ::unshare(CLONE_NEWPID) == 0 || ::unshare(CLONE_NEWUSER | CLONE_NEWPID) == 0;
}

int exit_code_of(pid_t child) {
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -2;
}

// The kernel keeps from such a process what a signal does by itself.
class InterruptFirstProcessDeathTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const pid_t probe = ::fork();
    if (probe == 0) ::_exit(become_parent_of_first_process() ? 0 : 1);
    if (exit_code_of(probe) != 0) GTEST_SKIP() << "this machine lets nobody make such a process";
  }
  // Runs `body` in it and ends with its exit code.
  [[noreturn]] static void run(void (*body)()) {
    if (!become_parent_of_first_process()) ::_exit(1);
    const pid_t first = ::fork();
    if (first == 0) {
      if (::getpid() == 1) body();
      ::_exit(0);
    }
    ::_exit(exit_code_of(first));
  }
};

TEST_F(InterruptFirstProcessDeathTest, TheSecondSignalEndsIt) {
  const auto body = [] {
    install_stop_handlers();
    ::raise(SIGINT);
    ::raise(SIGINT);
  };
  EXPECT_EXIT(run(body), ::testing::ExitedWithCode(130), "");
}

TEST_F(InterruptFirstProcessDeathTest, TheFirstSignalEndsAProgramWithoutHandlers) {
  const auto body = [] {
    char name[] = "program";
    char* words[] = {name, nullptr};
    run_main(1, words, [](const std::vector<std::string>&) { return ::raise(SIGTERM); });
  };
  EXPECT_EXIT(run(body), ::testing::ExitedWithCode(143), "");
}

TEST_F(InterruptFirstProcessDeathTest, HandlersThatStandStay) {
  const auto body = [] {
    install_stop_handlers();
    leave_at_stop_signals_if_first();
    ::raise(SIGTERM);
    ::_exit(stop_requested() ? 7 : 8);
  };
  EXPECT_EXIT(run(body), ::testing::ExitedWithCode(7), "");
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

#include "common/cli/interrupt.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "common/system/memory.h"

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

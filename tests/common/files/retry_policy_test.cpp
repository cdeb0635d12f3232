#include "common/files/retry_policy.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "common/cli/interrupt.h"
#include "tests/support/temporary_folder.h"

namespace coldframe {
namespace {

class PatienceTest : public ::testing::Test {
 protected:
  ~PatienceTest() override {
    clear_stop_request();
    set_patience(0);
    note_reading();
  }
  // Whether it is waited for at all.
  static bool is_waited_for(const std::filesystem::path& path, int error) {
    return RetryPolicy(path).again(error);
  }
  static void wait_in_vain(const std::filesystem::path& path) {
    for (RetryPolicy tries(path); tries.again(EIO);) {
    }
  }
  testing::TemporaryFolder folder_;
};

TEST_F(PatienceTest, WaitsForWhatMayPassAlone) {
  set_patience(60);
  EXPECT_TRUE(is_waited_for(folder_ / "a", EIO));
  EXPECT_TRUE(is_waited_for(folder_ / "a", ESTALE));
  EXPECT_FALSE(is_waited_for(folder_ / "a", ENOENT));
  EXPECT_FALSE(is_waited_for(folder_ / "a", EACCES));
}

TEST_F(PatienceTest, OfReadingIsLostUntilOneWorks) {
  set_patience(0.1);
  wait_in_vain(folder_ / "a");
  EXPECT_FALSE(is_waited_for(folder_ / "a", EIO));
  EXPECT_FALSE(is_waited_for(folder_ / "b", EIO));
  EXPECT_TRUE(RetryPolicy(folder_ / "a", RetryPolicy::Stop::kWaits).again(EIO));
  note_reading();
  EXPECT_TRUE(is_waited_for(folder_ / "a", EIO));
}

TEST_F(PatienceTest, EndsReadingAtAStopRequestAndNotWriting) {
  set_patience(60);
  request_stop();
  EXPECT_FALSE(is_waited_for(folder_ / "a", EIO));
  EXPECT_TRUE(RetryPolicy(folder_ / "a", RetryPolicy::Stop::kWaits).again(EIO));
}

}  // namespace
}  // namespace coldframe

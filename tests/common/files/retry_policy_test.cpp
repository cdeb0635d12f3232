#include "common/files/retry_policy.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

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
    note_success(folder_ / "a");
  }
  // Whether it is waited for at all.
  static bool is_waited_for(const std::filesystem::path& path, int error) {
    return RetryPolicy(path).again(error);
  }
  static void wait_in_vain(const std::filesystem::path& path, RetryPolicy::Stop stop) {
    for (RetryPolicy tries(path, stop); tries.again(EIO);) {
    }
  }
  testing::TemporaryFolder folder_;
};

TEST_F(PatienceTest, MissesNoMountWhereALinkLeadsToAnother) {
  set_patience(60);
  std::filesystem::create_symlink("/proc/version", folder_ / "link");
  struct stat status = {};
  ASSERT_EQ(::stat((folder_ / "link").c_str(), &status), 0);
  note_mount(folder_ / "link", status.st_dev);
  EXPECT_FALSE(is_waited_for(folder_ / "absent", ENOENT));
  EXPECT_FALSE(is_waited_for("/proc/absent", ENOENT));
  EXPECT_TRUE(is_waited_for(folder_ / "absent", EIO));
}

TEST_F(PatienceTest, FollowsLinksInARing) {
  set_patience(60);
  std::filesystem::create_symlink("../" + folder_.path().filename().string() + "/b", folder_ / "a");
  std::filesystem::create_symlink(folder_ / "a", folder_ / "b");
  EXPECT_FALSE(is_waited_for(folder_ / "a" / "x", ENOENT));
}

TEST_F(PatienceTest, IsLostForAWholeMountUntilSomethingThereWorks) {
  set_patience(0.1);
  wait_in_vain(folder_ / "a", RetryPolicy::Stop::kEnds);
  EXPECT_FALSE(is_waited_for(folder_ / "a", EIO));
  EXPECT_FALSE(is_waited_for(folder_ / "b", EIO));
  EXPECT_TRUE(is_waited_for("/proc/version", EIO));
  note_success(folder_ / "c");
  EXPECT_TRUE(is_waited_for(folder_ / "b", EIO));
  EXPECT_FALSE(is_waited_for(folder_ / "a", EIO));
}

// By a patience of eleven days it would not end.
TEST_F(PatienceTest, EndsSoonAfterAStopRequestForWritingToo) {
  set_patience(1e6, 0.1);
  request_stop();
  wait_in_vain(folder_ / "a", RetryPolicy::Stop::kEnds);
  EXPECT_TRUE(RetryPolicy(folder_ / "b", RetryPolicy::Stop::kWaits).again(EIO));
  wait_in_vain(folder_ / "c", RetryPolicy::Stop::kWaits);
}

}  // namespace
}  // namespace coldframe

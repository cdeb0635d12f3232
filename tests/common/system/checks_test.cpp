#include "common/system/checks.h"

#include <gmock/gmock.h>

#include <map>
#include <string>

#include "common/system/resources.h"
#include "common/text/text.h"
#include "tests/support/temporary_folder.h"

namespace coldframe {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

Environment with(const std::map<std::string, std::string>& variables) {
  return [variables](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

// A root of a file system in which this process is in a group of version 2.
class Checks : public ::testing::Test {
 protected:
  void put(const std::string& name, const std::string& content) {
    std::filesystem::create_directories((root_ / name).parent_path());
    root_.write(name, content);
  }
  void SetUp() override {
    put("proc/self/cgroup", "0::/job\n");
    put("proc/self/mountinfo", "36 25 0:31 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    put("proc/meminfo", "MemTotal: 16777216 kB\nMemAvailable:    8388608 kB\n");
  }

  testing::TemporaryFolder root_;
};

TEST_F(Checks, MemoryIsWhatTheMachineHas) {
  const Check check = check_memory(with({}), root_.path());
  EXPECT_THAT(check.found, HasSubstr("of which 8.0 GiB are available"));
  EXPECT_THAT(check.found, Not(HasSubstr("container")));
  EXPECT_THAT(check.to_do, IsEmpty());
}

TEST_F(Checks, MemoryIsWhatTheGroupLeaves) {
  put("sys/fs/cgroup/job/memory.max", concat(2048 * 1024ull * 1024, "\n"));
  put("sys/fs/cgroup/job/memory.current", concat(1536 * 1024ull * 1024, "\n"));
  put("sys/fs/cgroup/job/memory.stat", "inactive_file 0\n");
  const Check check = check_memory(with({{"SLURM_MEM_PER_NODE", "2048"}}), root_.path());
  EXPECT_THAT(check.found, HasSubstr("of which 512.0 MiB are available"));
  EXPECT_THAT(check.found, HasSubstr("the container or job leaves 512.0 MiB"));
  EXPECT_THAT(check.found, HasSubstr("SLURM_MEM_PER_NODE 2048"));
  EXPECT_THAT(check.to_do, HasSubstr("less than 1.0 GiB"));
  EXPECT_FALSE(check.stops);
}

TEST_F(Checks, ProcessorsAreThoseOfTheQuota) {
  put("sys/fs/cgroup/job/cpu.max", "50000 100000\n");
  const Check check = check_processors(with({}), root_.path());
  EXPECT_THAT(check.found, HasSubstr("1 usable of "));
  EXPECT_THAT(check.found, HasSubstr("may use the time of 0.5"));
  EXPECT_THAT(check.to_do, IsEmpty());
}

TEST_F(Checks, FewerProcessorsThanATaskOfSlurmMayUseAreAThingToDo) {
  const std::size_t usable = count_processors(root_.path());
  const auto of_task = [&](std::size_t count) {
    return check_processors(with({{"SLURM_CPUS_PER_TASK", concat(count)}}), root_.path());
  };
  EXPECT_THAT(of_task(usable).to_do, IsEmpty());
  EXPECT_THAT(of_task(usable + 1).to_do, IsEmpty());
  EXPECT_THAT(of_task(usable).found, HasSubstr(concat("SLURM_CPUS_PER_TASK ", usable)));
  EXPECT_EQ(of_task(1).to_do.empty(), usable == 1);
  if (usable > 1) {
    EXPECT_THAT(of_task(1).to_do, HasSubstr("--threads 1"));
  }
}

TEST_F(Checks, AFolderIsLeftAsItWas) {
  const Check check = check_folder("this folder", root_.path());
  EXPECT_THAT(check.found, HasSubstr(" free"));
  EXPECT_FALSE(check.stops);
  EXPECT_THAT(root_.names(), ::testing::ElementsAre("proc"));
}

TEST_F(Checks, AFolderThatIsNotThereStops) {
  const Check check = check_folder("temporary folder", root_ / "none");
  EXPECT_THAT(check.to_do, HasSubstr("check that it exists and may be written to"));
  EXPECT_TRUE(check.stops);
}

TEST_F(Checks, AreTheSameFromJson) {
  const Check check{"memory", "little", "buy some", true};
  const Check again = check_of(Json(check));
  EXPECT_EQ(again.subject, check.subject);
  EXPECT_EQ(again.found, check.found);
  EXPECT_EQ(again.to_do, check.to_do);
  EXPECT_TRUE(again.stops);
}

}  // namespace
}  // namespace coldframe

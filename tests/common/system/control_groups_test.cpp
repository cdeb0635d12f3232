#include "common/system/resources.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <string>

#include "common/text/text.h"
#include "tests/support/temporary_folder.h"

namespace coldframe {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;
constexpr const char* kV1NoLimit = "9223372036854771712\n";

// A made-up root of a file system.
class ControlGroups : public ::testing::Test {
 protected:
  void put(const std::string& name, const std::string& content) {
    const std::filesystem::path file(name);
    std::filesystem::create_directories(root_ / file.parent_path().string());
    root_.write(name, content);
  }
  void put_bytes(const std::string& name, std::uint64_t mebibytes) {
    put(name, concat(mebibytes * kMiB, "\n"));
  }
  // A mount of the hierarchy at `place`, which shows it from the group `shown` on.
  void mount(const std::string& type, const std::string& place, const std::string& options,
             const std::string& shown = "/") {
    mounts_ += concat("36 25 0:31 ", shown, " ", place, " rw,nosuid shared:9 - ", type, " ", type,
                      " rw,", options, "\n");
    put("proc/self/mountinfo", "22 1 8:1 / / rw - ext4 /dev/root rw\n" + mounts_);
  }
  void mount_v2(const std::string& shown = "/") {
    mount("cgroup2", "/sys/fs/cgroup", "nsdelegate", shown);
  }
  void be_in(const std::string& groups) { put("proc/self/cgroup", groups); }

  std::optional<std::uint64_t> memory() const { return memory_left_by_groups(root_.path()); }
  std::optional<double> processors() const { return processors_of_groups(root_.path()); }

  testing::TemporaryFolder root_;
  std::string mounts_;
};

TEST_F(ControlGroups, NothingIsLimitedWithoutThem) {
  EXPECT_FALSE(memory());
  EXPECT_FALSE(processors());
  be_in("0::/\n");
  EXPECT_FALSE(memory());
  mount_v2();
  EXPECT_FALSE(memory());  // the root of all groups has no such files
  EXPECT_FALSE(processors());
}

TEST_F(ControlGroups, OfVersion2) {
  be_in("0::/job.slice/task\n");
  mount_v2();
  const std::string group = "sys/fs/cgroup/job.slice/task/";
  put(group + "memory.max", "max\n");
  put_bytes(group + "memory.current", 100);
  put(group + "memory.stat", concat("anon 5\ninactive_file ", 30 * kMiB, "\nactive_file 7\n"));
  put(group + "cpu.max", "max 100000\n");
  EXPECT_FALSE(memory());
  EXPECT_FALSE(processors());

  put_bytes(group + "memory.max", 400);
  put(group + "cpu.max", "150000 100000\n");
  EXPECT_EQ(memory(), 330 * kMiB);
  EXPECT_EQ(processors(), 1.5);
  put_bytes(group + "memory.high", 200);  // beyond which it is throttled
  EXPECT_EQ(memory(), 130 * kMiB);
  put_bytes(group + "memory.high", 50);
  EXPECT_EQ(memory(), 0u);
}

TEST_F(ControlGroups, TheTightestOfThoseAroundItCounts) {
  be_in("0::/a/b/c\n");
  mount_v2();
  for (const auto& [group, limit, taken] : {std::tuple("sys/fs/cgroup/a/", 300, 290),
                                            {"sys/fs/cgroup/a/b/", 200, 20},
                                            {"sys/fs/cgroup/a/b/c/", 1000, 20}}) {
    put_bytes(concat(group, "memory.max"), static_cast<std::uint64_t>(limit));
    put_bytes(concat(group, "memory.current"), static_cast<std::uint64_t>(taken));
  }
  EXPECT_EQ(memory(), 10 * kMiB) << "siblings took what the outermost one has";
  put("sys/fs/cgroup/a/cpu.max", "200000 100000\n");
  put("sys/fs/cgroup/a/b/c/cpu.max", "800000 100000\n");
  EXPECT_EQ(processors(), 2);
}

TEST_F(ControlGroups, OfVersion1) {
  be_in("11:cpu,cpuacct:/docker/1\n4:memory:/docker/1\n1:name=systemd:/elsewhere\n");
  mount("cgroup", "/sys/fs/cgroup/memory", "memory");
  mount("cgroup", "/sys/fs/cgroup/cpu,cpuacct", "cpu,cpuacct");
  const std::string group = "sys/fs/cgroup/memory/docker/1/", cpu = "sys/fs/cgroup/cpu,cpuacct/";
  put("sys/fs/cgroup/memory/memory.limit_in_bytes", kV1NoLimit);
  put_bytes("sys/fs/cgroup/memory/memory.usage_in_bytes", 5000);
  put(group + "memory.limit_in_bytes", kV1NoLimit);
  put_bytes(group + "memory.usage_in_bytes", 100);
  put(cpu + "docker/1/cpu.cfs_quota_us", "-1\n");
  put(cpu + "docker/1/cpu.cfs_period_us", "100000\n");
  EXPECT_FALSE(memory());
  EXPECT_FALSE(processors());

  put_bytes(group + "memory.limit_in_bytes", 400);
  put(group + "memory.stat", concat("inactive_file 5\ntotal_inactive_file ", 60 * kMiB, "\n"));
  EXPECT_EQ(memory(), 360 * kMiB);
  put(cpu + "docker/1/cpu.cfs_quota_us", "50000\n");
  EXPECT_EQ(processors(), 0.5);
  put_bytes("sys/fs/cgroup/memory/docker/memory.limit_in_bytes", 350);
  put_bytes("sys/fs/cgroup/memory/docker/memory.usage_in_bytes", 150);
  EXPECT_EQ(memory(), 200 * kMiB);
}

TEST_F(ControlGroups, AContainerSeesItsOwnGroupAtTheTop) {
  be_in("4:memory:/docker/1\n");
  mount("cgroup", "/sys/fs/cgroup/memory", "memory", "/docker/1");
  put_bytes("sys/fs/cgroup/memory/memory.limit_in_bytes", 400);
  put_bytes("sys/fs/cgroup/memory/memory.usage_in_bytes", 100);
  EXPECT_EQ(memory(), 300 * kMiB);
  // Processes that joined from outside of a name space, and bind mounts of other groups.
  for (const char* group : {"4:memory:/../2\n", "4:memory:/\n", "4:memory:/docker/12\n"}) {
    be_in(group);
    EXPECT_EQ(memory(), 300 * kMiB) << group;
  }
}

TEST_F(ControlGroups, OfBothVersionsAtOnce) {
  be_in("4:memory:/job\n1:name=systemd:/job\n0::/job\n");
  mount("cgroup2", "/sys/fs/cgroup/unified", "nsdelegate");
  mount("cgroup", "/sys/fs/cgroup/memory", "memory");
  put_bytes("sys/fs/cgroup/memory/job/memory.limit_in_bytes", 400);
  put_bytes("sys/fs/cgroup/memory/job/memory.usage_in_bytes", 100);
  put("sys/fs/cgroup/unified/job/cpu.max", "300000 100000\n");
  EXPECT_EQ(memory(), 300 * kMiB);
  EXPECT_EQ(processors(), 3);
}

TEST_F(ControlGroups, MountsMayHaveAnyName) {
  be_in("0::/a b\n");
  mount("cgroup2", "/odd\\040place\\134x", "rw");
  put_bytes("odd place\\x/a b/memory.max", 400);
  put_bytes("odd place\\x/a b/memory.current", 100);
  EXPECT_EQ(memory(), 300 * kMiB);
}

TEST_F(ControlGroups, OddFilesLimitNothing) {
  put("proc/self/cgroup", "0\nno colons at all\n:::\n0::/job\n");
  put("proc/self/mountinfo", "short - cgroup2\n\n36 25 0:31 / /sys/fs/cgroup rw - cgroup2\n");
  EXPECT_FALSE(memory());
  mount_v2();
  put("sys/fs/cgroup/job/memory.max", "many\n");
  put("sys/fs/cgroup/job/cpu.max", "1\n");
  EXPECT_FALSE(memory());
  EXPECT_FALSE(processors());
  put_bytes("sys/fs/cgroup/job/memory.max", 400);  // without memory.current
  EXPECT_FALSE(memory());
}

TEST_F(ControlGroups, WhatIsAvailableIsTheLessOfMachineAndGroup) {
  put("proc/meminfo", "MemTotal: 9 kB\nMemAvailable:   204800 kB\n");
  EXPECT_EQ(available_bytes(root_.path()), 200 * kMiB);
  be_in("0::/job\n");
  mount_v2();
  put_bytes("sys/fs/cgroup/job/memory.max", 400);
  put_bytes("sys/fs/cgroup/job/memory.current", 100);
  EXPECT_EQ(available_bytes(root_.path()), 200 * kMiB);
  put_bytes("sys/fs/cgroup/job/memory.current", 350);
  EXPECT_EQ(available_bytes(root_.path()), 50 * kMiB);
  put_bytes("sys/fs/cgroup/job/memory.current", 400);
  EXPECT_EQ(available_bytes(root_.path()), 1u) << "0 would say that it cannot be told";
}

TEST_F(ControlGroups, ProcessorsAreThoseOfTheMaskAndOfTheQuota) {
  const std::size_t all = count_processors(root_.path());
  be_in("0::/job\n");
  mount_v2();
  put("sys/fs/cgroup/job/cpu.max", "50000 100000\n");
  EXPECT_EQ(count_processors(root_.path()), 1u);
  put("sys/fs/cgroup/job/cpu.max", "110000 100000\n");
  EXPECT_EQ(count_processors(root_.path()), std::min<std::size_t>(all, 2));
  put("sys/fs/cgroup/job/cpu.max", concat(100000 * (all + 1), " 100000\n"));
  EXPECT_EQ(count_processors(root_.path()), all);

  cpu_set_t before, one;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  CPU_ZERO(&one);
  for (std::size_t cpu = 0; CPU_COUNT(&one) == 0; ++cpu)
    if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(count_processors(root_.path()), 1u);
  ::sched_setaffinity(0, sizeof before, &before);
}

}  // namespace
}  // namespace coldframe

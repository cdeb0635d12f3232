// What a container, a job or a service leaves to this process: the limits of control groups, of
// version 2 and 1 (Linux, Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/memory.rst;
// Documentation/scheduler/sched-bwc.rst). `root` is that of the file system.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace coldframe {

// Bytes until this process's group, or one that holds it, is at its limit, beyond which Linux kills
// or throttles it. What the kernel can drop at once, files that were read long ago, is not counted
// as taken. None: nothing is limited.
std::optional<std::uint64_t> memory_left_by_groups(const std::filesystem::path& root = "/");

// The processors whose whole time the groups may use, such as 1.5. None: nothing is limited.
std::optional<double> processors_of_groups(const std::filesystem::path& root = "/");

}  // namespace coldframe

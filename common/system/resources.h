// What this process may take of the machine: memory, processors and open files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>

namespace coldframe {

// What a container, a job or a service leaves to this process: the limits of control groups, of
// version 2 and 1 (Linux, Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/memory.rst;
// Documentation/scheduler/sched-bwc.rst). `root` is that of the file system.

// Bytes until this process's group, or one that holds it, is at its limit, beyond which Linux kills
// or throttles it. What the kernel can drop at once, files that were read long ago, is not counted
// as taken. None: nothing is limited.
std::optional<std::uint64_t> memory_left_by_groups(const std::filesystem::path& root = "/");

// The processors whose whole time the groups may use, such as 1.5. None: nothing is limited.
std::optional<double> processors_of_groups(const std::filesystem::path& root = "/");

// The memory and the time that this process takes of the machine. OS specifics live in
// common/system.

std::uint64_t resident_bytes();       // resident set now
std::uint64_t peak_resident_bytes();  // its maximum since the start
// What the machine, and the container or the job, could still give; 0 where it cannot be told.
// `root`: as above.
std::uint64_t available_bytes(const std::filesystem::path& root = "/");
double process_cpu_seconds();  // user and system time of all its threads since the start
double thread_cpu_seconds();   // of the calling thread

// The limit on open files (ulimit -n).

void raise_limit_of_open_files();  // to the most that the system lets this process have

// How many files all readers together may keep open for later: a quarter of the limit.
std::size_t max_kept_open();

// The processors that this process may use.

// At least 1: those of its affinity mask, and no more than a container's quota keeps busy, a broken
// number rounded up. `root`: as above.
std::size_t count_processors(const std::filesystem::path& root = "/");

// The same, as it was when first asked for.
std::size_t usable_processors();

}  // namespace coldframe

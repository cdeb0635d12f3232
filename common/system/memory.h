// The memory and the time that this process takes of the machine. OS specifics live in
// common/system.
#pragma once

#include <cstdint>
#include <filesystem>

namespace coldframe {

std::uint64_t resident_bytes();       // resident set now
std::uint64_t peak_resident_bytes();  // its maximum since the start
// What the machine, and the container or the job, could still give; 0 where it cannot be told.
// `root`: as control_groups.h has it.
std::uint64_t available_bytes(const std::filesystem::path& root = "/");
double process_cpu_seconds();  // user and system time of all its threads since the start
double thread_cpu_seconds();   // of the calling thread

}  // namespace coldframe

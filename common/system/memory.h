// The memory that this process takes of the machine. OS specifics live in common/system.
#pragma once

#include <cstdint>

namespace coldframe {

std::uint64_t resident_bytes();       // resident set now
std::uint64_t peak_resident_bytes();  // its maximum since the start
std::uint64_t available_bytes();  // what the machine could still give; 0 where it cannot be told
double process_cpu_seconds();     // user and system time of all its threads since the start
double thread_cpu_seconds();      // of the calling thread

}  // namespace coldframe

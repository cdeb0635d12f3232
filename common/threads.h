// Starting threads on a system that may refuse them: a limit of the user, the container or the job.
#pragma once

#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

namespace coldframe {

// A thread that runs body(). SystemError where the system refuses it.
std::jthread start_thread(std::function<void()> body);

// `count` threads that run body() each, or as many of them as the system grants, with a warning
// once in a program's life. SystemError, and no thread, where these are fewer than `least` (0 or
// 1).
std::vector<std::jthread> start_threads(std::size_t count, const std::function<void()>& body,
                                        std::size_t least = 0);

// Runs body() on `count` threads, at least on one, until all have returned.
void run_threads(std::size_t count, const std::function<void()>& body);

}  // namespace coldframe

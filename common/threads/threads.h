// Starting threads on a system that may refuse them: a limit of the user, the container or the job.
// (Those of LibTorch's own pool, when refused, end the program with OpenMP's words.)
#pragma once

#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

namespace coldframe {

// A thread that runs body(). SystemError where the system refuses it, std::bad_alloc where there is
// no memory for it.
std::jthread start_thread(std::function<void()> body);

// `count` threads that run body() each, or as many of them as the system grants, with a warning
// once in a program's life. As start_thread(), and no thread, where these are fewer than `least` (0
// or 1).
std::vector<std::jthread> start_threads(std::size_t count, const std::function<void()>& body,
                                        std::size_t least = 0);

// SystemError unless the system grants `count` threads at this moment, beside those that there are.
void require_threads(std::size_t count);

// Runs body() on `count` threads, at least on one, until all have returned.
void run_threads(std::size_t count, const std::function<void()>& body);

}  // namespace coldframe

// A thread pool for the short parts of a training step. There are thousands per second, too many to
// start threads for.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace coldframe::temporal {

class ThreadTeam {
 public:
  // `threads` includes the caller of run(); each of the others calls `begin` first.
  explicit ThreadTeam(std::size_t threads = 1, const std::function<void()>& begin = {});
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  std::size_t threads() const { return helpers_.size() + 1; }

  // Runs body(0) … body(count − 1) once each, in any order. Rethrows the first error after all have
  // ended.
  template <typename Body>
  void run(std::size_t count, const Body& body) {
    run(count,
        {&body, [](const void* data, std::size_t i) { (*static_cast<const Body*>(data))(i); }});
  }

 private:
  struct Task {
    const void* data = nullptr;
    void (*call)(const void*, std::size_t) = nullptr;
  };
  void run(std::size_t count, Task task);
  void take_turns();
  void help();

  Task task_;
  std::size_t count_ = 0;
  std::atomic<std::size_t> next_{0};
  std::atomic<std::uint32_t> round_{0}, busy_{0};
  std::atomic<bool> ending_{false};
  std::mutex mutex_;
  std::exception_ptr error_;
  std::vector<std::jthread> helpers_;
};

}  // namespace coldframe::temporal

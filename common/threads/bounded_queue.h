// A queue of at most `capacity` items between the threads of a pipeline. The first error stops
// every thread on either end and is the one that is reported.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <utility>

namespace coldframe {

template <typename T>
class BoundedQueue {
 public:
  explicit BoundedQueue(std::size_t capacity) : capacity_(capacity) {}

  // Waits for room. False when the queue was closed or failed: the producer should stop.
  bool push(T item) {
    std::unique_lock lock(mutex_);
    room_.wait(lock, [&] { return closed_ || items_.size() < capacity_; });
    if (closed_) return false;
    items_.push_back(std::move(item));
    filled_.notify_one();
    return true;
  }

  // Waits for an item. Empty after close() once the queue has drained; rethrows what fail() was
  // given.
  std::optional<T> pop() {
    std::unique_lock lock(mutex_);
    filled_.wait(lock, [&] { return closed_ || !items_.empty(); });
    if (error_) std::rethrow_exception(error_);
    if (items_.empty()) return std::nullopt;
    std::optional<T> item(std::move(items_.front()));
    items_.pop_front();
    room_.notify_one();
    return item;
  }

  std::size_t capacity() const {
    std::lock_guard lock(mutex_);
    return capacity_;
  }

  // Room for at least so many items from now on.
  void widen(std::size_t capacity) {
    std::lock_guard lock(mutex_);
    if (capacity <= capacity_) return;
    capacity_ = capacity;
    room_.notify_all();
  }

  // No more items will come (from the producer), or none are wanted (from the consumer).
  void close() {
    std::lock_guard lock(mutex_);
    closed_ = true;
    filled_.notify_all();
    room_.notify_all();
  }

  // Ends the queue with an error; the first one is kept. Items still inside are dropped.
  void fail(std::exception_ptr error) {
    std::lock_guard lock(mutex_);
    if (!error_) error_ = std::move(error);
    closed_ = true;
    items_.clear();
    filled_.notify_all();
    room_.notify_all();
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable room_, filled_;
  std::deque<T> items_;
  std::size_t capacity_;
  bool closed_ = false;
  std::exception_ptr error_;
};

}  // namespace coldframe

// Streams without a device: work waits in its stream until somebody has to wait for it, in the
// order that is hardest on who forgot an event.
#pragma once

#include <c10/util/Exception.h>

#include <array>
#include <deque>
#include <functional>

#include "extract/pipeline/transfer.h"

namespace coldframe::extract {

class FakeStreams : public Streams {
 public:
  // The eager stream runs as soon as work comes; the other one, or both, run when they must.
  enum class Eager { kNone, kCopy, kCompute };
  explicit FakeStreams(Eager eager = Eager::kNone) : eager_(eager) {}

  int out_of_memory = 0;                 // so many of the next hand-overs of computations throw
  std::int64_t device_frames = 1 << 20;  // more of them at once do not fit on the device
  int waits = 0;
  int max_pending = 0;  // computations that waited at once

  bool asynchronous() const override { return true; }
  torch::Tensor device_memory(torch::IntArrayRef sizes, torch::ScalarType type) override {
    if (sizes[0] > device_frames)
      throw c10::OutOfMemoryError({__func__, __FILE__, __LINE__}, "pretended");
    return torch::full(sizes, 99, type);
  }
  torch::Tensor host_memory(torch::IntArrayRef sizes, torch::ScalarType type) override {
    return torch::full(sizes, 99, type);
  }

  void run(Stream stream, std::function<void()> work) override {
    if (stream == Stream::kCompute && out_of_memory > 0) {
      --out_of_memory;
      throw c10::OutOfMemoryError({__func__, __FILE__, __LINE__}, "pretended");
    }
    if (stream == Stream::kCompute) max_pending = std::max(max_pending, ++pending_);
    push(stream, [this, stream, work] {
      work();
      if (stream == Stream::kCompute) --pending_;
      return true;
    });
  }
  void record(int event, Stream stream) override {
    Event& it = events_.at(static_cast<std::size_t>(event));
    it.stream = stream;
    push(stream, [&it, version = ++it.wanted] {
      it.reached = version;
      return true;
    });
  }
  void wait_for(Stream stream, int event) override {
    const Event& it = events_.at(static_cast<std::size_t>(event));
    push(stream, [&it, version = it.wanted] { return it.reached >= version; });
  }
  void synchronize(int event) override {
    ++waits;
    const Event& it = events_.at(static_cast<std::size_t>(event));
    while (it.reached < it.wanted)
      if (!step(it.stream) && !step(other(it.stream)))
        TORCH_CHECK(false, "the streams wait for ever");
  }
  double seconds_between(int from, int to) override {
    for (const int event : {from, to}) {
      const Event& it = events_.at(static_cast<std::size_t>(event));
      TORCH_CHECK(it.wanted > 0 && it.reached == it.wanted, "an event that was not reached");
    }
    return 0.5;
  }

 private:
  using Step = std::function<bool()>;  // false: not yet
  struct Event {
    int wanted = 0, reached = 0;
    Stream stream = Stream::kCopy;
  };
  static Stream other(Stream stream) {
    return stream == Stream::kCopy ? Stream::kCompute : Stream::kCopy;
  }
  std::deque<Step>& steps(Stream stream) { return steps_[static_cast<std::size_t>(stream)]; }

  void push(Stream stream, Step step) {
    steps(stream).push_back(std::move(step));
    if (eager_ == Eager::kCopy) drain(Stream::kCopy);
    if (eager_ == Eager::kCompute) drain(Stream::kCompute);
  }
  void drain(Stream stream) {
    while (step(stream)) {
    }
  }
  bool step(Stream stream) {
    if (steps(stream).empty() || !steps(stream).front()()) return false;
    steps(stream).pop_front();
    return true;
  }

  Eager eager_;
  std::array<std::deque<Step>, 2> steps_;
  std::array<Event, kEvents> events_{};
  int pending_ = 0;
};

}  // namespace coldframe::extract

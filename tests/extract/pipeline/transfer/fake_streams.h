// Streams without a device: work waits in its lane until somebody has to wait for it, in the order
// that is hardest on who forgot a mark.
#pragma once

#include <c10/util/Exception.h>

#include <array>
#include <deque>
#include <functional>

#include "extract/pipeline/transfer/streams.h"

namespace coldframe::extract {

class FakeStreams : public Streams {
 public:
  // The eager lane runs as soon as work comes; the other one, or both, run when they must.
  enum class Eager { kNone, kCopy, kCompute };
  explicit FakeStreams(Eager eager = Eager::kNone) : eager_(eager) {}

  int out_of_memory = 0;                 // so many of the next hand-overs of computations throw
  std::int64_t device_frames = 1 << 20;  // more of them at once do not fit on the device
  int waits = 0;
  int most_pending = 0;  // computations that waited at once

  bool asynchronous() const override { return true; }
  torch::Tensor device_memory(torch::IntArrayRef sizes, torch::ScalarType type) override {
    if (sizes[0] > device_frames)
      throw c10::OutOfMemoryError({__func__, __FILE__, __LINE__}, "pretended");
    return torch::full(sizes, 99, type);
  }
  torch::Tensor host_memory(torch::IntArrayRef sizes, torch::ScalarType type) override {
    return torch::full(sizes, 99, type);
  }

  void run(Lane lane, std::function<void()> work) override {
    if (lane == Lane::kCompute && out_of_memory > 0) {
      --out_of_memory;
      throw c10::OutOfMemoryError({__func__, __FILE__, __LINE__}, "pretended");
    }
    if (lane == Lane::kCompute) most_pending = std::max(most_pending, ++pending_);
    push(lane, [this, lane, work] {
      work();
      if (lane == Lane::kCompute) --pending_;
      return true;
    });
  }
  void set(int mark, Lane lane) override {
    Mark& it = marks_.at(static_cast<std::size_t>(mark));
    it.lane = lane;
    push(lane, [&it, version = ++it.wanted] {
      it.reached = version;
      return true;
    });
  }
  void hold(Lane lane, int mark) override {
    const Mark& it = marks_.at(static_cast<std::size_t>(mark));
    push(lane, [&it, version = it.wanted] { return it.reached >= version; });
  }
  void wait(int mark) override {
    ++waits;
    const Mark& it = marks_.at(static_cast<std::size_t>(mark));
    while (it.reached < it.wanted)
      if (!step(it.lane) && !step(other(it.lane))) TORCH_CHECK(false, "the lanes wait for ever");
  }
  double seconds_between(int from, int to) override {
    for (const int mark : {from, to}) {
      const Mark& it = marks_.at(static_cast<std::size_t>(mark));
      TORCH_CHECK(it.wanted > 0 && it.reached == it.wanted, "a mark that was not reached");
    }
    return 0.5;
  }

 private:
  using Step = std::function<bool()>;  // false: not yet
  struct Mark {
    int wanted = 0, reached = 0;
    Lane lane = Lane::kCopy;
  };
  static Lane other(Lane lane) { return lane == Lane::kCopy ? Lane::kCompute : Lane::kCopy; }
  std::deque<Step>& steps(Lane lane) { return lanes_[static_cast<std::size_t>(lane)]; }

  void push(Lane lane, Step step) {
    steps(lane).push_back(std::move(step));
    if (eager_ == Eager::kCopy) drain(Lane::kCopy);
    if (eager_ == Eager::kCompute) drain(Lane::kCompute);
  }
  void drain(Lane lane) {
    while (step(lane)) {
    }
  }
  bool step(Lane lane) {
    if (steps(lane).empty() || !steps(lane).front()()) return false;
    steps(lane).pop_front();
    return true;
  }

  Eager eager_;
  std::array<std::deque<Step>, 2> lanes_;
  std::array<Mark, kMarks> marks_{};
  int pending_ = 0;
};

}  // namespace coldframe::extract

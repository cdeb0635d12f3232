// Minimal stream and event wrapper for double buffering; synchronous on the CPU. Work runs in order
// within a stream. Streams wait for each other by events.
#pragma once

#include <functional>
#include <memory>

#include "common/torch/tensor.h"

namespace coldframe::extract {

class Streams {
 public:
  enum class Lane { kCopy, kCompute };
  virtual ~Streams() = default;

  // True if work runs while the caller goes on; else run() returns when it is done.
  virtual bool asynchronous() const = 0;

  // Memory that the lanes copy from and to: the device's own, and the processor's.
  virtual torch::Tensor device_memory(torch::IntArrayRef sizes, torch::ScalarType type) = 0;
  virtual torch::Tensor host_memory(torch::IntArrayRef sizes, torch::ScalarType type) = 0;

  // Work behind all that the lane has got so far. What `work` throws while it is being handed over
  // (out of memory) is thrown here.
  virtual void run(Lane lane, std::function<void()> work) = 0;

  // A point in a lane; 0 … kMarks − 1. A mark may be set again; who waits, waits for the last.
  static constexpr int kMarks = 8;
  virtual void set(int mark, Lane lane) = 0;
  virtual void hold(Lane lane, int mark) = 0;  // the lane goes on when the mark is reached
  virtual void wait(int mark) = 0;             // the caller does
  virtual double seconds_between(int from, int to) = 0;  // of marks that were waited for
};

// A CUDA device has two streams, events and page-locked host memory. On the CPU all is done at
// once.
std::unique_ptr<Streams> make_streams(const torch::Device& device);

}  // namespace coldframe::extract

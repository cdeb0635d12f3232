// Minimal stream and event wrapper for double buffering; synchronous on the CPU. Work runs in order
// within a stream. Streams wait for each other by events.
#pragma once

#include <functional>
#include <memory>

#include "common/torch/tensor.h"

namespace coldframe::extract {

class Streams {
 public:
  enum class Stream { kCopy, kCompute };
  virtual ~Streams() = default;

  // True if work runs while the caller goes on; else run() returns when it is done.
  virtual bool asynchronous() const = 0;

  // Memory that the streams copy from and to: the device's own, and the processor's.
  virtual torch::Tensor device_memory(torch::IntArrayRef sizes, torch::ScalarType type) = 0;
  virtual torch::Tensor host_memory(torch::IntArrayRef sizes, torch::ScalarType type) = 0;

  // Runs `work` after all that the stream was given before. What `work` throws while it is being
  // handed over (out of memory) is thrown here.
  virtual void run(Stream stream, std::function<void()> work) = 0;

  // An event is a point in a stream: 0 … kEvents − 1. It may be recorded again; a wait is for the
  // last record.
  static constexpr int kEvents = 8;
  virtual void record(int event, Stream stream) = 0;
  virtual void wait_for(Stream stream,
                        int event) = 0;     // the stream goes on once the event is reached
  virtual void synchronize(int event) = 0;  // the caller waits
  virtual double seconds_between(int from, int to) = 0;  // of events that were waited for
};

// A CUDA device has two streams, events and page-locked host memory. On the CPU all is done at
// once.
std::unique_ptr<Streams> make_streams(const torch::Device& device);

}  // namespace coldframe::extract

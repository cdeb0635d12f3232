// Minimal stream and event wrapper for double buffering; synchronous on the CPU. Work runs in order
// within a stream. Streams wait for each other by events.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "common/torch/tensor.h"

namespace coldframe::extract {

class Streams {
 public:
  enum class Stream { kCopy, kCompute };
  virtual ~Streams() = default;

  // True if work runs asynchronously; else run() returns when it is done.
  virtual bool asynchronous() const = 0;

  // Buffers for the streams' copies: in device memory and in host memory.
  virtual torch::Tensor device_memory(torch::IntArrayRef sizes, torch::ScalarType type) = 0;
  virtual torch::Tensor host_memory(torch::IntArrayRef sizes, torch::ScalarType type) = 0;

  // Runs `work` after all earlier work of the stream. Rethrows what `work` throws while it is
  // enqueued (out of memory).
  virtual void run(Stream stream, std::function<void()> work) = 0;

  // An event is a point in a stream: 0 … kEvents − 1. It may be recorded again; a wait is for the
  // last record.
  static constexpr int kEvents = 8;
  virtual void record(int event, Stream stream) = 0;
  virtual void wait_for(Stream stream,
                        int event) = 0;                  // the stream waits for the event
  virtual void synchronize(int event) = 0;               // the caller waits
  virtual double seconds_between(int from, int to) = 0;  // of events that were waited for
};

// A CUDA device has two streams, events and page-locked host memory. On the CPU everything is
// synchronous.
std::unique_ptr<Streams> make_streams(const torch::Device& device);

// Double buffer of frames between host and device: while the device computes one slot, the host
// fills the other, and its copy overlaps the computation.
// The life cycle of a slot: the caller fills its frames; submit() copies them to the device on the
// copy stream and computes them on the compute stream, which waits for the copy; the features are
// copied back after the computation; collect() waits for them. From submit() to collect() the slot
// belongs to the device.

// One frame [H, W, 3] or clip [T, H, W, 3] of uint8, or a block [X, Y, Z] of float32.
struct InputShape {
  std::vector<std::int64_t> sizes;
  torch::ScalarType type = torch::kUInt8;

  std::size_t bytes() const {
    return static_cast<std::size_t>(c10::multiply_integers(sizes)) * c10::elementSize(type);
  }
};

class Staging {
 public:
  static constexpr int kSlots = 2;

  // Inputs [n, …] on the device, the rows from `begin` on of a slot -> [n, D] float32 there or on
  // the CPU; runs on the compute stream.
  using Forward =
      std::function<torch::Tensor(const torch::Tensor& frames, int slot, std::int64_t begin)>;

  Staging(Streams& streams, InputShape shape, std::int64_t dimension, Forward forward);

  // Allocates `count` inputs in an empty slot; c10::OutOfMemoryError.
  void reserve(int slot, std::int64_t count);
  std::int64_t capacity(int slot) const { return at(slot).host.size(0); }
  // [capacity, …]
  const torch::Tensor& frames(int slot) const { return at(slot).host; }

  // Submits rows [begin, begin + count). c10::OutOfMemoryError: none of them was submitted; rows
  // submitted before are unaffected.
  void submit(int slot, std::int64_t begin, std::int64_t count);

  // Waits for all submitted rows; the slot may then be refilled. Row i of the result [capacity, D]
  // is the feature of frame i, until the next submit().
  const torch::Tensor& collect(int slot);

  // The device time of a collected slot.
  double seconds(int slot) { return streams_.seconds_between(started(slot), finished(slot)); }

 private:
  struct Slot {
    torch::Tensor host;      // as frames()
    torch::Tensor device;    // likewise, of the largest part; undefined where nothing is
                             // asynchronous
    torch::Tensor features;  // [capacity, D] float32 on the CPU
    bool submitted = false;
  };
  Slot& at(int slot) { return slots_.at(static_cast<std::size_t>(slot)); }
  const Slot& at(int slot) const { return slots_.at(static_cast<std::size_t>(slot)); }
  std::vector<std::int64_t> sizes_of(std::int64_t count) const;
  void give_device_memory(Slot& slot, int number, std::int64_t count);
  static int copied(int slot) { return slot; }
  static int started(int slot) { return kSlots + slot; }
  static int finished(int slot) { return 2 * kSlots + slot; }

  Streams& streams_;
  InputShape shape_;
  std::int64_t dimension_;
  Forward forward_;
  std::array<Slot, kSlots> slots_;
};

}  // namespace coldframe::extract

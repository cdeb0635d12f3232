// Two buffers of frames between the processor and a device: while the device computes what one
// held, the processor fills the other, and its copy overlaps the computation.
//
// A slot goes round: the caller fills its frames; submit() copies them to the device on the copy
// stream and computes them on the compute stream, which waits for the copy; the features are copied
// back behind the computation; collect() waits for them. From submit() to collect() the slot
// belongs to the device.
#pragma once

#include <array>
#include <functional>

#include "common/text/image_size.h"
#include "common/torch/tensor.h"
#include "extract/pipeline/transfer/streams.h"

namespace coldframe::extract {

class Staging {
 public:
  static constexpr int kSlots = 2;

  // frames [n, H, W, 3] uint8 on the device -> [n, D] float32 there or on the CPU; runs on the
  // compute stream.
  using Forward = std::function<torch::Tensor(const torch::Tensor& frames)>;

  Staging(Streams& streams, const ImageSize& image_size, std::int64_t dimension, Forward forward);

  // Room for `count` frames in a slot that has none; c10::OutOfMemoryError.
  void reserve(int slot, std::int64_t count);
  std::int64_t capacity(int slot) const { return at(slot).host.size(0); }
  const torch::Tensor& frames(int slot) const { return at(slot).host; }  // [capacity, H, W, 3]

  // Hands rows [begin, begin + count) over. c10::OutOfMemoryError: nothing of them was; other rows
  // of the slot, handed over before, are not concerned.
  void submit(int slot, std::int64_t begin, std::int64_t count);

  // Waits for all rows handed over; the slot may be filled again. Row i of the result [capacity, D]
  // is the feature of frame i, until the next submit().
  const torch::Tensor& collect(int slot);

  // The time that the device took for a slot that was collected.
  double seconds(int slot) { return streams_.seconds_between(started(slot), finished(slot)); }

 private:
  struct Slot {
    torch::Tensor host;      // [capacity, H, W, 3] uint8
    torch::Tensor device;    // [largest part, H, W, 3] uint8; undefined where nothing is
                             // asynchronous
    torch::Tensor features;  // [capacity, D] float32 on the CPU
    bool submitted = false;
  };
  Slot& at(int slot) { return slots_.at(static_cast<std::size_t>(slot)); }
  const Slot& at(int slot) const { return slots_.at(static_cast<std::size_t>(slot)); }
  void give_device_memory(Slot& slot, int number, std::int64_t count);
  static int copied(int slot) { return slot; }
  static int started(int slot) { return kSlots + slot; }
  static int finished(int slot) { return 2 * kSlots + slot; }

  Streams& streams_;
  ImageSize image_size_;
  std::int64_t dimension_;
  Forward forward_;
  std::array<Slot, kSlots> slots_;
};

}  // namespace coldframe::extract

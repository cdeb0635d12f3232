// A batch of decoded frames on its way through the backbone.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <span>
#include <vector>

#include "extract/decode_stage.h"
#include "extract/device_input.h"
#include "extract/vit/backbone.h"

namespace coldframe {

// Collects frames of any exams and hands each one's feature to `sink`. When the device runs out of
// memory, the batch is halved, computed again, and the smaller size remembered.
class Batch {
 public:
  using Sink = std::function<void(const FramePlace& place, std::span<const float> feature)>;

  Batch(vit::Backbone& backbone, DeviceInput input, std::int64_t image_size, std::int64_t capacity,
        Sink sink);

  void add(const DecodedFrame& frame);  // computes when the batch is full
  void compute();                       // what has been collected; nothing when empty
  std::int64_t frames_done() const { return done_; }

 private:
  torch::Tensor forward(const torch::Tensor& frames);

  vit::Backbone& backbone_;
  DeviceInput input_;
  torch::Tensor frames_;            // [capacity, S, S, 3] uint8
  std::vector<FramePlace> places_;  // of each collected frame
  std::int64_t part_;               // frames per forward pass that are known to fit
  std::int64_t done_ = 0;
  Sink sink_;
};

}  // namespace coldframe

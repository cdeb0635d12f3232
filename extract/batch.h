// A batch of decoded frames on its way through the backbone.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "extract/batch_controller.h"
#include "extract/decode_stage.h"
#include "extract/device_input.h"
#include "extract/recent_features.h"
#include "extract/vit/backbone.h"

namespace coldframe {

struct BatchCounts {
  std::int64_t frames = 0;    // handed to the sink
  std::int64_t repeated = 0;  // of these, not computed: the same pixels had been shortly before
  double compute_s = 0;       // in forward passes
  std::uint64_t peak = 0;     // bytes of tensors on the device, the most in any forward pass
};

// Collects frames (or tiles of them) of any exams and hands each one's feature to `sink`; frames of
// the same content are computed once. When the device runs out of memory, the batch is halved and
// computed again, and the smaller size remembered: nothing is lost.
class Batch {
 public:
  using Sink = std::function<void(const FramePlace& place, std::span<const float> feature)>;

  Batch(vit::Backbone& backbone, const torch::Device& device,
        const preprocess::Preprocessing& preprocessing, const BatchLimits& limits, Sink sink);

  void add(const DecodedFrame& frame);  // computes when the batch is full
  void compute();                       // what has been collected; nothing when empty
  const BatchCounts& counts() const { return counts_; }
  bool settled() const { return controller_.settled(); }
  std::string learnt() const { return controller_.learnt(); }

 private:
  struct Row {
    FrameDigest digest;
    std::vector<FramePlace> places;  // that show these pixels
  };
  torch::Tensor forward(std::int64_t begin, std::int64_t size);
  void hand_out(const Row& row, std::span<const float> feature);
  void reserve();                  // room for a batch
  void shrink(std::int64_t size);  // after running out of memory at `size` frames

  vit::Backbone& backbone_;
  torch::Device device_;
  DeviceInput input_;
  BatchController controller_;
  RecentFeatures recent_;
  torch::Tensor frames_;   // [at least rows, S, S, 3] uint8
  std::vector<Row> rows_;  // of the frames collected
  std::unordered_map<FrameDigest, std::size_t, FrameDigestHash> row_of_;
  BatchCounts counts_;
  Sink sink_;
};

}  // namespace coldframe

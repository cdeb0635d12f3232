// A batch of decoded frames on its way through the backbone.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/torch/tensor.h"
#include "extract/pipeline/decode_stage.h"
#include "extract/pipeline/devices/batch_controller.h"
#include "extract/pipeline/recent_features.h"
#include "extract/pipeline/transfer/device_input.h"
#include "extract/pipeline/transfer/staging.h"
#include "extract/vit/backbone.h"

namespace coldframe::extract {

struct BatchCounts {
  std::int64_t frames = 0;    // handed to the sink
  std::int64_t repeated = 0;  // of these, not computed: the same pixels had been shortly before
  double compute_s = 0;       // that the device spent on forward passes
  std::uint64_t peak = 0;     // bytes of tensors on the device, the most in any forward pass
};

// Collects frames (or tiles of them) of any exams and hands each one's row to `sink`: its feature,
// and behind it what the backbone keeps; frames of
// the same content are computed once. When the device runs out of memory, the batch is halved and
// computed again, and the smaller size remembered: nothing is lost. On a GPU one batch is collected
// while the one before is computed, once the batch's size is settled.
class BackboneBatch {
 public:
  using Sink = std::function<void(const FramePlace& place, std::span<const float> row)>;

  // `streams`: of the device, for tests; else the device's own.
  BackboneBatch(vit::Backbone& backbone, const torch::Device& device,
                const preprocess::Preprocessing& preprocessing, const BatchLimits& limits,
                Sink sink, std::unique_ptr<Streams> streams = nullptr);

  void add(const DecodedFrame& frame);  // computes when the batch is full
  void compute();  // what has been collected, to the end; nothing when there is none
  const BatchCounts& counts() const { return counts_; }
  bool settled() const { return controller_.settled(); }
  std::string learnt() const { return controller_.learnt(); }

 private:
  struct Row {
    FrameDigest digest;
    std::vector<FramePlace> places;  // that show these pixels
  };
  struct RowPlace {
    int slot;
    std::size_t row;
  };
  using Rows = std::vector<Row>;

  Rows& rows(int slot) { return rows_[static_cast<std::size_t>(slot)]; }
  torch::Tensor forward(const torch::Tensor& frames);
  bool overlapping() const { return streams_->asynchronous() && controller_.settled(); }
  void start();  // on the device: what has been collected
  void start_part(std::int64_t begin, std::int64_t size);
  void finish(int slot);           // waits for it and hands its features out
  void reserve();                  // room for a batch
  void shrink(std::int64_t size);  // after running out of memory at `size` frames

  vit::Backbone& backbone_;
  torch::Device device_;
  DeviceInput input_;
  BatchController controller_;
  RecentFeatures recent_;
  std::unique_ptr<Streams> streams_;
  Staging staging_;
  int slot_ = 0;                            // that is being filled; the other may be computing
  std::array<Rows, Staging::kSlots> rows_;  // of the frames in each slot
  std::unordered_map<FrameDigest, RowPlace, FrameDigestHash> row_of_;
  double timed_s_ = 0;  // of the slot at hand, measured part by part
  BatchCounts counts_;
  Sink sink_;
};

}  // namespace coldframe::extract

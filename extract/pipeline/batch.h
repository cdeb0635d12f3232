// A batch of decoded frames on its way through the backbone.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/torch/tensor.h"
#include "extract/pipeline/decode/decoded.h"
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
// and behind it what the backbone keeps; frames of the same content are computed once. When the
// device runs out of memory, the batch is halved and computed again, and the smaller size
// remembered: nothing is lost. On a GPU one batch is collected while the one before is computed.
//
// A frame is copied once on its way to a device, into a batch's page-locked memory, by several
// threads when the batch is full. Decoders do not write there themselves: a repeated frame takes no
// row, rows lie side by side, and a queue of some batches for several devices would have to be
// page-locked.
class BackboneBatch {
 public:
  using Sink = std::function<void(const FramePlace& place, std::span<const float> row)>;

  // `streams`: of the device, for tests; else the device's own.
  BackboneBatch(vit::Backbone& backbone, const torch::Device& device,
                const preprocess::Preprocessing& preprocessing, const BatchLimits& limits,
                Sink sink, std::unique_ptr<Streams> streams = nullptr);

  void add(DecodedFrame frame);  // computes when the batch is full
  void compute();                // what has been collected, to the end; nothing when there is none
  const BatchCounts& counts() const { return counts_; }
  bool settled() const { return controller_.settled(); }
  std::int64_t size() const { return controller_.size(); }  // frames of a pass, by now
  // Pixels that are needed no longer since the last call; their memory may serve again.
  std::vector<std::vector<std::uint8_t>> take_used() { return std::exchange(used_, {}); }
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
  std::uint64_t& peak_of(int slot) { return peak_[static_cast<std::size_t>(slot)]; }
  torch::Tensor forward(const torch::Tensor& frames);
  void start();  // on the device: what has been collected
  void copy_pixels();
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
  bool filled_ = false;                     // a batch, at least once
  int slot_ = 0;                            // that is being filled; the other may be computing
  std::array<Rows, Staging::kSlots> rows_;  // of the frames in each slot
  std::vector<std::vector<std::uint8_t>> pixels_, used_;  // of the slot being filled; of none
  std::array<std::uint64_t, Staging::kSlots> peak_{};  // bytes on the device, of each slot's passes
  std::unordered_map<FrameDigest, RowPlace, FrameDigestHash> row_of_;
  BatchCounts counts_;
  Sink sink_;
};

}  // namespace coldframe::extract

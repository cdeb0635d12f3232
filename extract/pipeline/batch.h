// Decides how many frames go through the backbone at once: as many as the user says, or as many as
// pay, and never more than the memory holds. Pure arithmetic on what the caller measured.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/torch/tensor.h"
#include "extract/pipeline/decode_stage.h"
#include "extract/pipeline/transfer.h"
#include "extract/preprocess/preprocessing.h"
#include "extract/vit/backbone.h"

namespace coldframe::extract {

struct BatchLimits {
  std::int64_t batch = 0;           // --batch; 0: auto
  std::uint64_t memory_budget = 0;  // bytes that tensors may take; 0: no budget
  std::int64_t most = 256;          // frames up to which auto grows
  std::int64_t first = 0;           // frames with which it begins, if these are more than kFirst
};

// `auto` starts small, or with what is known to fit, and doubles as long as a doubling brings at
// least 5 % more frames a second and its memory, extrapolated from the last two sizes, stays within
// the budget. Each size is timed by its fastest batch, since the first ones of a size also pay for
// allocation and code generation.
class BatchController {
 public:
  static constexpr std::int64_t kFirst = 4;

  explicit BatchController(const BatchLimits& limits);

  std::int64_t size() const { return size_; }  // frames of the next forward pass, at most

  // A forward pass of `frames` frames went well. `peak` is the most that tensors took during it.
  void succeeded(std::int64_t frames, double seconds, std::uint64_t peak);

  // It did not fit: size() is at most half of `frames` from now on. `frames` > 1.
  void out_of_memory(std::int64_t frames);

  bool settled() const { return settled_; }
  std::string learnt() const;  // one clause for the log: "16 frames per forward pass (auto)"

 private:
  void grow_or_settle();
  bool next_fits() const;

  BatchLimits limits_;
  std::int64_t size_;
  bool settled_;
  bool halved_ = false;
  int batches_ = 0;                           // timed at this size
  double rate_ = 0, rate_before_ = 0;         // frames/s: at this size, at half of it
  std::uint64_t peak_ = 0, peak_before_ = 0;  // bytes, likewise
};

// Turns uint8 frames in host memory into the backbone's normalised input on its device.

class DeviceInput {
 public:
  DeviceInput(const preprocess::Preprocessing& preprocessing, const torch::Device& device);

  // frames [B, S, S, 3] uint8 on the CPU or the device -> [B, 3, S, S] float32 on the device.
  torch::Tensor operator()(const torch::Tensor& frames) const;

  // The normalised value of each level of each channel: [3, 256] float32 on the device.
  const torch::Tensor& levels() const { return table_; }

 private:
  torch::Tensor on_cpu(const torch::Tensor& frames) const;
  torch::Tensor on_cuda(const torch::Tensor& frames) const;

  preprocess::Preprocessing preprocessing_;
  torch::Device device_;
  torch::Tensor table_;  // [3, 256] on the device
};

// The features of frames computed lately, found by the frames' content: a frozen picture, a clip
// that was exported twice or a loop is computed once.

struct FrameDigestHash {
  std::size_t operator()(const FrameDigest& digest) const {
    std::size_t hash = 0;
    std::memcpy(&hash, digest.data(), sizeof hash);
    return hash;
  }
};

// Holds `capacity` features of `dimension` values each; the oldest makes room for the newest.
class RecentFeatures {
 public:
  RecentFeatures(std::size_t capacity, std::size_t dimension);

  // Empty when it is not there. Valid until the next add().
  std::span<const float> find(const FrameDigest& digest) const;
  void add(const FrameDigest& digest, std::span<const float> feature);

 private:
  std::size_t dimension_, oldest_ = 0;
  std::vector<float> values_;  // [capacity, D]
  std::vector<FrameDigest> digests_;
  std::unordered_map<FrameDigest, std::size_t, FrameDigestHash> places_;
};

// A batch of decoded frames on its way through the backbone.

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

// Batches: their size, inputs on the device, features that were computed before, and the forward
// pass.
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

// Chooses the batch size: the user's, or the largest that still raises throughput, within the
// memory limit. Pure arithmetic on the caller's measurements.

struct BatchLimits {
  std::int64_t batch = 0;           // --batch, in windows (or images); 0: auto
  std::uint64_t memory_budget = 0;  // bytes that tensors may take; 0: no budget
  std::int64_t most = 256;          // max frames with auto; a window has several
  std::int64_t first = 0;           // initial frames, if more than kFirst
  bool begins_with_one = false;     // instead of kFirst, where inputs are large
  std::string of = "frame";         // what is counted, for the log
};

// `auto` starts small, or at a size known to fit, and doubles while doubling brings at least 5 %
// more frames/s and its memory, extrapolated from the last two sizes, stays within the budget. A
// size's time is that of its fastest batch, since its first batches include allocation and code
// generation.
class BatchController {
 public:
  static constexpr std::int64_t kFirst = 4;

  explicit BatchController(const BatchLimits& limits);

  std::int64_t size() const { return size_; }  // max frames of the next forward pass

  // Reports a successful forward pass of `frames` frames; `peak`: its peak tensor memory in bytes.
  void succeeded(std::int64_t frames, double seconds, std::uint64_t peak);

  // Reports out of memory: limits size() to half of `frames` from now on. `frames` > 1.
  void out_of_memory(std::int64_t frames);

  bool settled() const { return settled_; }
  std::string learnt() const;  // for the log: "16 frames per forward pass (auto)"

 private:
  void grow_or_settle();
  bool next_fits() const;

  BatchLimits limits_;
  std::int64_t size_;
  bool settled_;
  bool halved_ = false;
  int batches_ = 0;                           // timed at this size
  double rate_ = 0, rate_before_ = 0;         // frames/s: at this size, at half of it
  std::uint64_t peak_ = 0, peak_before_ = 0;  // bytes, at the same sizes
};

// Converts uint8 frames in host memory to the backbone's normalised input on its device.

// What one input of a backbone holds before it is normalised, with `clip_frames` frames each.
InputShape input_shape(const preprocess::Preprocessing& preprocessing, std::int64_t clip_frames);

class DeviceInput {
 public:
  DeviceInput(const preprocess::Preprocessing& preprocessing, const torch::Device& device);

  // frames [B, S, S, 3] uint8 on the CPU or the device -> [B, 3, S, S] float32 on the device; clips
  // [B, T, S, S, 3] -> [B, T, 3, S, S]; blocks [B, X, Y, Z] float32 -> [B, 1, X, Y, Z].
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

// A cache of recent features, keyed by frame content: repeated frames (a freeze frame, a
// duplicate export, a loop) are computed once.

struct InputDigestHash {
  std::size_t operator()(const InputDigest& digest) const {
    std::size_t hash = 0;
    std::memcpy(&hash, digest.data(), sizeof hash);
    return hash;
  }
};

// Holds `capacity` features of `dimension` values each; evicts the oldest.
class RecentFeatures {
 public:
  RecentFeatures(std::size_t capacity, std::size_t dimension);

  // Empty if absent. Valid until the next add().
  std::span<const float> find(const InputDigest& digest) const;
  void add(const InputDigest& digest, std::span<const float> feature);

 private:
  std::size_t dimension_, oldest_ = 0;
  std::vector<float> values_;  // [capacity, D]
  std::vector<InputDigest> digests_;
  std::unordered_map<InputDigest, std::size_t, InputDigestHash> places_;
};

// Runs batches of decoded frames through the backbone.

struct BatchCounts {
  std::int64_t frames = 0;    // or windows, passed to the sink
  std::int64_t repeated = 0;  // of these, reused: pixels equal to recent ones
  double compute_s = 0;       // device time of forward passes
  std::uint64_t peak = 0;     // max tensor bytes of any forward pass
};

// Collects windows (or tiles) of any exams, images being windows of one frame, and passes each
// one's row to `sink`: its features, then the tokens that the backbone keeps. Computes windows of
// equal content once. If the device runs out of memory, halves the batch, recomputes it and keeps
// the smaller size: nothing is lost. On a GPU, collects one batch while the previous one is
// computed.
//  Each frame is copied once before its transfer: into the batch's page-locked memory, by several
// threads once the batch is full. Decoders do not write there directly: repeated frames take no
// row, rows are contiguous, and a queue of several batches for several devices would have to be
// page-locked.
class BackboneBatch {
 public:
  using Sink = std::function<void(const FeatureIndex& place, std::span<const float> row)>;

  // `streams`: the device's streams in tests; default: the device's own.
  BackboneBatch(vit::Backbone& backbone, const torch::Device& device,
                const preprocess::Preprocessing& preprocessing, const BatchLimits& limits,
                Sink sink, std::unique_ptr<Streams> streams = nullptr);

  void add(DecodedWindow window);  // computes when the batch is full
  void compute();                  // the collected frames, and waits; no-op if none
  const BatchCounts& counts() const { return counts_; }
  bool settled() const { return controller_.settled(); }
  std::int64_t size() const { return controller_.size(); }  // current frames per pass
  // Pixel buffers released since the last call, for reuse.
  std::vector<std::vector<std::uint8_t>> take_used() { return std::exchange(used_, {}); }
  std::string learnt() const { return controller_.learnt(); }

 private:
  struct Row {
    InputDigest digest;
    std::size_t blank;                 // as in DecodedWindow
    std::vector<FeatureIndex> places;  // that show these pixels
  };
  struct RowPlace {
    int slot;
    std::size_t row;
  };
  using Rows = std::vector<Row>;

  Rows& rows(int slot) { return rows_[static_cast<std::size_t>(slot)]; }
  std::uint64_t& peak_of(int slot) { return peak_[static_cast<std::size_t>(slot)]; }
  torch::Tensor forward(const torch::Tensor& frames, int slot, std::int64_t begin);
  void blank_padding(torch::Tensor& clips, int slot, std::int64_t begin);
  void start();  // enqueues the collected frames on the device
  void copy_pixels();
  void start_part(std::int64_t begin, std::int64_t size);
  void finish(int slot);           // waits for it and delivers its features
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
  int slot_ = 0;                            // slot being filled; the other may be computing
  std::array<Rows, Staging::kSlots> rows_;  // of the frames in each slot
  std::vector<std::vector<std::uint8_t>> pixels_, used_;  // of the slot being filled; of none
  std::array<std::uint64_t, Staging::kSlots> peak_{};  // bytes on the device, of each slot's passes
  std::unordered_map<InputDigest, RowPlace, InputDigestHash> row_of_;
  BatchCounts counts_;
  Sink sink_;
};

}  // namespace coldframe::extract

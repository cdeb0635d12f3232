// A sampler chooses which frames of an exam a model sees, and in which order. It uses a
// counter-based generator: a choice depends on the seed, the epoch and the exam, never on batches
// or threads.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/threads/counter_random.h"
#include "common/torch/tensor.h"
#include "common/torch/to_device.h"
#include "train_temporal/data/dataset.h"

namespace coldframe::temporal {

// What a fit uses a random number for: the second part of the number's key, after the fit's seed.
enum class RandomPurpose : std::uint64_t {
  kWeights = 1,
  kExamOrder,
  kFrames,
  kPermutation,
  kProjectionDropout,
  kHeadDropout,
  kView,
  kInputNoise,
  kMixup,
  kLowRank,
  kLayerDropout = 256,       // after the GRU's first layer; + 1 for each further layer
  kTokenDropout = 1u << 16,  // in the first half of a ViT's first block; see in_block()
  kDropPath = 1u << 17,      // likewise
};

// `of`: kTokenDropout or kDropPath.
constexpr RandomPurpose in_block(RandomPurpose of, std::int64_t block, std::size_t part) {
  return static_cast<RandomPurpose>(static_cast<std::int64_t>(of) + 2 * block +
                                    static_cast<std::int64_t>(part));
}

constexpr RandomPurpose layer_dropout(std::int64_t layer) {
  return static_cast<RandomPurpose>(static_cast<std::int64_t>(RandomPurpose::kLayerDropout) +
                                    layer);
}

enum class FrameOrder {
  kInOrder,
  kFirst,  // a single frame: the `single` baseline
  kMiddle,
  kLast,
  kShuffled,  // features permuted, times unchanged: the `shuffled` control
};

constexpr bool is_one_frame(FrameOrder order) {
  return order == FrameOrder::kFirst || order == FrameOrder::kMiddle || order == FrameOrder::kLast;
}

// Indices of an exam's T frames, [K] each: step k of the sequence has the features of frame
// features[k] and the time of frame times[k].
struct DrawnFrames {
  std::vector<std::int64_t> features, times;
};

// Samples K of n indices, ascending, each subset equally likely; all n if K ≥ n.
std::vector<std::int64_t> draw_in_order(std::int64_t n, std::int64_t k, CounterRandom& random);

class FrameSampler {
 public:
  // `train_frames`: number of frames drawn anew in each epoch; 0: all.
  FrameSampler(FrameOrder order, std::int64_t train_frames, std::uint64_t seed)
      : order_(order), train_frames_(train_frames), seed_(seed) {}

  DrawnFrames for_training(std::int64_t frames, std::uint64_t exam_key, std::uint64_t epoch) const;
  DrawnFrames for_evaluation(std::int64_t frames, std::uint64_t exam_key) const;  // all frames

 private:
  DrawnFrames arranged(std::vector<std::int64_t> positions, CounterRandom random) const;

  FrameOrder order_;
  std::int64_t train_frames_;
  std::uint64_t seed_;
};

// Draws the view of an exam to train on in an epoch, uniformly.
std::size_t draw_view(std::size_t views, std::uint64_t seed, std::uint64_t exam_key,
                      std::uint64_t epoch);

// The training exams in the order in which an epoch visits them.
std::vector<std::size_t> epoch_order(std::vector<std::size_t> exams, std::uint64_t seed,
                                     std::uint64_t epoch);
// A class-balanced epoch with the same number of exams, in random order: classes alternate, and a
// class that runs out of exams starts again. `classes`: the exams of each.
std::vector<std::size_t> balanced_order(std::vector<std::vector<std::size_t>> classes,
                                        std::uint64_t seed, std::uint64_t epoch);

// Packs exams of different lengths into one batch: all first frames, then all second frames, … The
// longest sequence comes first, so there is no padding that could leak into results.

// Columns of BatchTensors::time, before standardisation: three values and three flags that state
// whether each is known. An unknown value is 0.
enum TimeColumn : std::int64_t {
  kLogInterval,    // log of the seconds since the previous frame of the sequence
  kSinceFirst,     // seconds since the sequence's first frame
  kLogElapsed,     // log_elapsed() of the seconds since the common time zero of all exams
  kIntervalKnown,  // 0 for the first frame and where a time is unknown
  kTimeKnown,      // 0 where this frame's time or that of the first frame is unknown
  kElapsedKnown,   // 0 where this frame's time or the exam's start is unknown
  kTimeColumns,
};

// The exam that mixup adds to another one. `share`: weight of that other exam in the sum.
struct Partner {
  std::size_t exam = 0;
  std::vector<std::int64_t> features;  // as in DrawnFrames
  std::size_t view = 0;
  double share = 1;
};

struct BatchItem {
  std::size_t exam;  // index into Dataset::sequences
  DrawnFrames frames;
  std::size_t view = 0;  // index into Dataset::views
  std::optional<Partner> partner = {};
};

// The tensors of a batch that LibTorch's models take, on the compute device; row indices are int64.
struct BatchTensors {
  torch::Tensor time;                  // [N, kTimeColumns]
  torch::Tensor clock;                 // [B, F]
  torch::Tensor feature_rows;          // [N] of Dataset::features
  torch::Tensor last_rows;             // [B] row of each exam's last frame in the batch
  torch::Tensor lengths;               // [B]
  torch::Tensor exams;                 // [B]
  torch::Tensor partner_rows, shares;  // [N] with mixup
  torch::Tensor features;              // [N, D] as stored, if the dataset's are on another device
};

// B exams with N frames in total, T in the longest.
struct PackedBatch {
  std::vector<std::size_t> exams;                      // [B] longest sequence first
  std::vector<std::int64_t> frame_rows;                // [N] rows of Dataset::features
  std::vector<std::int64_t> positions;                 // [N] frame index within the exam
  std::vector<std::int64_t> batch_sizes;               // [T] exams that reach step t
  std::vector<std::int64_t> lengths;                   // [B] frames
  std::vector<VisitFrames> visits;                     // [B]
  std::vector<std::array<float, kTimeColumns>> times;  // [N]
  std::vector<std::uint64_t> exam_keys;                // [B]
  std::vector<std::uint64_t> row_keys;                 // [N] of exam and step
  // Empty without mixup. A frame's features become share · own + (1 − share) · partner's, taken at
  // the same relative position of the partner's sequence. Times and lengths do not change.
  std::vector<std::int64_t> partner_rows;  // [N]
  std::vector<std::size_t> partners;       // [B] exams
  std::vector<double> shares;              // [B]

  // True if exams are padded with copies of their last frame. Pooling by `lengths` ignores these
  // rows, and models that read forwards do not see them.
  bool padded = false;

  BatchTensors tensors;  // set by make_batch() only

  bool mixed() const { return !shares.empty(); }
  bool even() const { return batch_sizes.back() == size(); }  // rows are [T, B] then
  std::int64_t size() const { return static_cast<std::int64_t>(exams.size()); }
  // int64 on the CPU, as LibTorch requires.
  torch::Tensor batch_sizes_tensor() const { return torch::tensor(batch_sizes, torch::kInt64); }
};

// Calls body(exam, row of the exam) for each row of a model's output, in the order of the batch: a
// row per exam, or per packed frame.
template <typename Body>
void for_output_rows(const PackedBatch& batch, bool per_frame, Body body) {
  if (!per_frame) {
    for (std::size_t exam : batch.exams) body(exam, std::size_t{0});
    return;
  }
  auto position = batch.positions.begin();
  for (std::int64_t reaching : batch.batch_sizes) {
    for (std::int64_t i = 0; i < reaching; ++i) {
      body(batch.exams[static_cast<std::size_t>(i)], static_cast<std::size_t>(*position++));
    }
  }
}

// Overwrites `batch`, to reuse its memory; makes no tensors. `rows`: rows of every exam, padded; 0:
// one per frame.
void pack(const Dataset& dataset, std::vector<BatchItem> items, PackedBatch& batch,
          std::size_t rows = 0);
// Adds the tensors of a packed batch to `parcel`.
void add_tensors(const Dataset& dataset, PackedBatch& batch, Parcel& parcel);
PackedBatch make_batch(const Dataset& dataset, std::vector<BatchItem> items);

// The features of a batch as float32, [N, D]. `mean` [D] fills in a stream that only one of two
// mixed frames has; streams that both lack stay NaN. Undefined `mean`: no stream can be missing.
torch::Tensor gather_features(const Dataset& dataset, const PackedBatch& batch,
                              const torch::Tensor& mean = {});

}  // namespace coldframe::temporal

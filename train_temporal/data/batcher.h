// A sampler chooses which frames of an exam a model sees, and in which order. It is counter-based:
// a choice depends on the seed, the epoch and the exam, never on batches or threads.
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

// The use of a random number in a fit is the second part of its key, after the fit's seed.
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
  kLayerDropout = 256,       // behind the GRU's first layer; one more for each layer after it
  kTokenDropout = 1u << 16,  // in the first part of a ViT's first block; likewise
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
  kFirst,  // one frame alone: the `single` baseline
  kMiddle,
  kLast,
  kShuffled,  // features in random order, times left in place: the `shuffled` control
};

constexpr bool is_one_frame(FrameOrder order) {
  return order == FrameOrder::kFirst || order == FrameOrder::kMiddle || order == FrameOrder::kLast;
}

// Positions among an exam's T frames, [K] each: step k of the sequence has the features of frame
// features[k] and the time of frame times[k].
struct DrawnFrames {
  std::vector<std::int64_t> features, times;
};

// K of n positions, ascending, each subset equally likely; all n when K ≥ n.
std::vector<std::int64_t> draw_in_order(std::int64_t n, std::int64_t k, CounterRandom& random);

class FrameSampler {
 public:
  // `train_frames`: how many are drawn anew in each epoch; 0: all.
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

// Draws the view on which an exam is trained in an epoch, each equally likely.
std::size_t draw_view(std::size_t views, std::uint64_t seed, std::uint64_t exam_key,
                      std::uint64_t epoch);

// The training exams in the order in which an epoch visits them.
std::vector<std::size_t> epoch_order(std::vector<std::size_t> exams, std::uint64_t seed,
                                     std::uint64_t epoch);
// The same number of exams in a random order, but as many of every class: classes take turns, and
// one that runs out of exams starts again. `classes`: the exams of each.
std::vector<std::size_t> balanced_order(std::vector<std::vector<std::size_t>> classes,
                                        std::uint64_t seed, std::uint64_t epoch);

// Exams of different lengths as one packed batch: all first frames, then all second frames, … The
// longest sequence comes first, so no padding exists and nothing can leak out of it.

// Columns of Batch::time, before standardisation: three values, and whether each is known. One that
// is not is 0.
enum TimeColumn : std::int64_t {
  kLogInterval,    // log of the seconds since the previous frame of the sequence
  kSinceFirst,     // seconds since the sequence's first frame
  kLogElapsed,     // log_elapsed() of the seconds since the zero that all exams share
  kIntervalKnown,  // 0 for the first frame and where a time is unknown
  kTimeKnown,      // 0 where this frame's time or the first's is unknown
  kElapsedKnown,   // 0 where this frame's time or the exam's start is unknown
  kTimeColumns,
};

// An exam that mixup adds to another one: `share` of the sum is the other one's.
struct Partner {
  std::size_t exam = 0;
  std::vector<std::int64_t> features;  // as DrawnFrames has them
  std::size_t view = 0;
  double share = 1;
};

struct BatchItem {
  std::size_t exam;  // index into Dataset::sequences
  DrawnFrames frames;
  std::size_t view = 0;  // index into Dataset::views
  std::optional<Partner> partner = {};
};

// What LibTorch's models take of a batch, on the device that computes; rows count from 0, int64.
struct BatchTensors {
  torch::Tensor time;                  // [N, kTimeColumns]
  torch::Tensor clock;                 // [B, F]
  torch::Tensor feature_rows;          // [N] of Dataset::features
  torch::Tensor last_rows;             // [B] of the batch: of each exam's last frame
  torch::Tensor lengths;               // [B]
  torch::Tensor exams;                 // [B]
  torch::Tensor partner_rows, shares;  // [N] with mixup
  torch::Tensor features;              // [N, D] as stored, where the dataset's are elsewhere
};

// B exams with N frames altogether, the longest with T.
struct PackedBatch {
  std::vector<std::size_t> exams;                      // [B] longest sequence first
  std::vector<std::int64_t> frame_rows;                // [N] rows of Dataset::features
  std::vector<std::int64_t> positions;                 // [N] among the frames of their exam
  std::vector<std::int64_t> batch_sizes;               // [T] exams that reach step t
  std::vector<std::int64_t> lengths;                   // [B] frames
  std::vector<VisitFrames> visits;                     // [B]
  std::vector<std::array<float, kTimeColumns>> times;  // [N]
  std::vector<std::uint64_t> exam_keys;                // [B]
  std::vector<std::uint64_t> row_keys;                 // [N] of exam and step
  // With mixup; else empty. The features of a frame are share · its own + (1 − share) · its
  // partner's, which is as far into the partner's sequence. Times and lengths stay.
  std::vector<std::int64_t> partner_rows;  // [N]
  std::vector<std::size_t> partners;       // [B] exams
  std::vector<double> shares;              // [B]

  // True where exams have rows behind their own frames, which repeat the last one: poolings that
  // go by `lengths` leave them out, and models that read forwards do not see them.
  bool padded = false;

  BatchTensors tensors;  // of make_batch() alone

  bool mixed() const { return !shares.empty(); }
  bool even() const { return batch_sizes.back() == size(); }  // rows are [T, B] then
  std::int64_t size() const { return static_cast<std::int64_t>(exams.size()); }
  // int64 on the CPU, as LibTorch wants them.
  torch::Tensor batch_sizes_tensor() const { return torch::tensor(batch_sizes, torch::kInt64); }
};

// Calls body(exam, row of the exam) for what a model puts out of a batch, in its order: a row per
// exam, or one per packed frame.
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

// Written over `batch`, so that its memory serves again; without tensors. `rows`: of every exam,
// padded; 0: as many as it has frames.
void pack(const Dataset& dataset, std::vector<BatchItem> items, PackedBatch& batch,
          std::size_t rows = 0);
// What becomes the tensors of a packed batch.
void add_tensors(const Dataset& dataset, PackedBatch& batch, Parcel& parcel);
PackedBatch make_batch(const Dataset& dataset, std::vector<BatchItem> items);

// The features of a batch as float32, [N, D]. `mean` [D] fills a stream that only one of two
// mixed frames has; streams that both lack stay NaN. Undefined: none can be missing.
torch::Tensor gather_features(const Dataset& dataset, const PackedBatch& batch,
                              const torch::Tensor& mean = {});

}  // namespace coldframe::temporal

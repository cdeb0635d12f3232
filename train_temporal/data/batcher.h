// Exams of different lengths as one packed batch: all first frames, then all second frames, … The
// longest sequence comes first, so no padding exists and nothing can leak out of it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/torch/tensor.h"
#include "common/torch/to_device.h"
#include "train_temporal/data/dataset.h"
#include "train_temporal/data/sampler.h"

namespace coldframe::temporal {

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

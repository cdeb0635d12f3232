// A sampler chooses which frames of an exam a model sees, and in which order. It is counter-based:
// a choice depends on the seed, the epoch and the exam, never on batches or threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/threads/counter_random.h"

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

}  // namespace coldframe::temporal

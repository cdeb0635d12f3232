// One training step of the end of a ViT: features of all frames first, then, with the gradient that
// the temporal model gives for them, the way back in chunks of frames (GradCache, Gao et al. 2021,
// arXiv:2101.06983).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "common/torch/tensor.h"
#include "train_temporal/fit/tune/chain.h"
#include "train_temporal/fit/tune/chunk_run.h"
#include "train_temporal/fit/tune/recompute_planner.h"
#include "train_temporal/models/dropout.h"

namespace coldframe::tune {

class TunedStep {
 public:
  // `rows(from, to)`: what enters the chain's first trained step, of these frames.
  using Rows = std::function<Values(std::int64_t from, std::int64_t to)>;
  TunedStep(const Chain& chain, RecomputePlanner& ways, Rows rows,
            std::span<const std::uint64_t> keys, const temporal::Dropout& dropout,
            torch::ScalarType precision);

  // [n, F]. Chooses a smaller way when memory runs out; SystemError when there is none.
  torch::Tensor features(std::int64_t dimension, const torch::Device& device);
  // Adds up the gradients of what is trained, from the gradient of the features.
  void backward(const torch::Tensor& gradient);

 private:
  // Frames whose last `steps` steps are to run forward again, and all of them backward.
  struct Piece {
    std::int64_t from, to;
    std::size_t steps;
    Values gradient;  // of what these steps give
  };
  void compute_features(torch::Tensor& features);
  std::unique_ptr<ChunkRun> run_of(std::int64_t from, std::int64_t to, std::size_t steps) const;
  Pass pass_of(std::int64_t from, std::int64_t to) const;
  std::vector<Piece> chunks_of(const Piece& piece) const;
  void take_back(const Piece& piece, std::vector<Piece>& waiting);

  const Chain& chain_;
  RecomputePlanner& ways_;
  Rows rows_;
  std::span<const std::uint64_t> keys_;
  const temporal::Dropout& dropout_;
  torch::ScalarType precision_;
  std::int64_t n_;
  std::size_t steps_;
  std::map<std::int64_t, std::unique_ptr<ChunkRun>> kept_;  // by their first frame
};

}  // namespace coldframe::tune

// The processes that fit a model together: each computes a share of every batch, and all hold the
// same parameters after every step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "common/processes/process_group.h"
#include "train_temporal/models/sequence_model.h"
#include "train_temporal/training/step.h"

namespace coldframe::temporal {

struct EpochLosses;
struct FitState;

class Ranks {
 public:
  // Null: this process is the only one, and nothing is exchanged.
  explicit Ranks(ProcessGroup* group = nullptr) : group_(group) {}

  bool several() const { return group_ != nullptr; }
  Share share() const;

  // All processes take what rank 0 has.
  void adopt(SequenceModel& model) const;
  void adopt(EpochLosses& losses) const;
  void adopt(FitState& state) const;

  // Adds up the ranks' losses. False, on all, when the memory of one was not enough.
  bool add_up(LossSum& sum, bool enough_memory) const;
  // The sum of all ranks' `parts`, in the order of ranks; of `gradients` alone when there are none.
  void add_up(std::span<float* const> parts, const torch::Tensor& gradients) const;
  // The least that any rank has beside 0; 0 where all have that.
  std::uint64_t least(std::uint64_t own) const;
  // The ranks' values one after another.
  std::vector<double> concatenate(const std::vector<double>& own) const;

 private:
  ProcessGroup* group_;
};

}  // namespace coldframe::temporal

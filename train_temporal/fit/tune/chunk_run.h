// A chunk of frames on its way through a chain, forward and backward, in a schedule's order. Every
// step starts from detached tensors, so that its graph is its own: a step may run again without
// the others, and no graph reaches beyond the step that a schedule keeps it for.
#pragma once

#include <cstddef>
#include <vector>

#include "common/torch/tensor.h"
#include "train_temporal/fit/tune/chain.h"
#include "train_temporal/fit/tune/schedule.h"

namespace coldframe::tune {

class ChunkRun {
 public:
  // `steps`: the chain's first so many behind its frozen ones, which the schedule runs. `input`:
  // what enters them.
  ChunkRun(const Chain& chain, std::size_t steps, Schedule schedule, Values input,
           const Pass& pass);

  // Runs what goes before the first step backward. What the schedule keeps for it stays.
  const Values& forward();
  // Takes the gradient of forward()'s values back to the chain's start, and adds up those of the
  // trained parameters. When memory runs out no parameter has a part of a step's gradient:
  // remaining() steps wait for gradient(), that of what the last of them gives.
  void backward(Values gradient);

  std::size_t remaining() const { return remaining_; }
  const Values& gradient() const { return gradient_; }

 private:
  void run_forward(const Operation& operation);
  void run_with_graph(const Operation& operation);
  void run_backward(std::size_t step);

  const Chain& chain_;
  Schedule schedule_;
  Pass pass_;
  std::size_t first_, next_ = 0;  // the first step in the chain; the next operation
  std::vector<Values> values_;    // what enters each step, and what the last gives; empty: dropped
  std::vector<Values> graphs_;    // what a step gave, with its graph
  std::size_t remaining_;
  Values gradient_;
};

}  // namespace coldframe::tune

// CUDA Graphs: the launches of a pass of the ViT or of a training step, recorded once and replayed
// with one call, so that the processor does not hold up a small model.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace coldframe {

// One recorded pass or step.
class Graph {
 public:
  virtual ~Graph() = default;
  // Records what `work` launches on the current stream; nothing of it is computed. Throws what
  // `work` or CUDA throws, and can only be destroyed then. LibTorch refuses its default stream.
  virtual void capture(const std::function<void()>& work) = 0;
  virtual void replay() = 0;                // on the current stream
  virtual std::uint64_t bytes() const = 0;  // of device memory that it keeps aside
};

using MakeGraph = std::function<std::unique_ptr<Graph>()>;

// Makes graphs that share their memory: no two of them may compute at once, and what one leaves
// there the next one overwrites. Empty where libcoldframe_cuda_graphs.so is missing or does not
// load.
MakeGraph cuda_graphs();

// Work that comes again and again. The first time warms libraries up for its shapes; the second
// one records it. Work that does not let itself be recorded is computed without, from then on,
// with a line in the log.
class Recording {
 public:
  explicit Recording(MakeGraph make) : make_(std::move(make)) {}

  // Computes `work`, which must do the same on the same memory each time. Whatever says that memory
  // ran out while it is recorded is thrown, and the next call tries again.
  void run(const std::function<void()>& work);
  void clear();  // when the memory that `work` uses has moved, or other work comes
  std::uint64_t bytes() const { return graph_ ? graph_->bytes() : 0; }

 private:
  bool capture(const std::function<void()>& work);  // false: not to be recorded

  MakeGraph make_;  // empty: no graph
  std::unique_ptr<Graph> graph_;
  bool warm_ = false;
};

}  // namespace coldframe

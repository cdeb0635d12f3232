// CUDA Graphs: the launches of a forward pass, recorded once for a batch size and replayed with one
// call, so that the processor does not hold up a small model.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

namespace coldframe::vit::gpu {

// One recorded forward pass.
class Graph {
 public:
  virtual ~Graph() = default;
  // Records what `work` launches on the current stream; nothing of it is computed. Throws what
  // `work` or CUDA throws, and can only be destroyed then.
  virtual void capture(const std::function<void()>& work) = 0;
  virtual void replay() = 0;                // on the current stream
  virtual std::uint64_t bytes() const = 0;  // of device memory that it keeps aside
};

using MakeGraph = std::function<std::unique_ptr<Graph>()>;

// Empty where libcoldframe_cuda_graphs.so is missing or does not load.
MakeGraph cuda_graphs();

// At most kMost graphs, by batch size. A size is recorded when it comes for the fourth time:
// before, it warms libraries up, and sizes that come seldom (the end of a job) are not worth one.
// Work that does not let itself be recorded is computed without, from then on, with a line in the
// log.
class Graphs {
 public:
  static constexpr std::size_t kMost = 4;
  static constexpr int kWarmUps = 3;

  explicit Graphs(MakeGraph make) : make_(std::move(make)) {}

  // Computes `work`, which must do the same on the same memory for the same `batch`.
  void run(std::int64_t batch, const std::function<void()>& work);
  void clear();  // when the memory that `work` uses has moved
  std::uint64_t bytes() const;

 private:
  struct Entry {
    int uses = 0;
    std::uint64_t last_use = 0;
    std::unique_ptr<Graph> graph;
  };
  bool capture(Entry& entry, const std::function<void()>& work);  // false: not to be recorded
  void make_room();

  MakeGraph make_;  // empty: no further graphs
  std::map<std::int64_t, Entry> entries_;
  std::uint64_t turn_ = 0;
};

}  // namespace coldframe::vit::gpu

// A graph of the CPU: keeps the work and does it again. Like the real one it computes nothing while
// it records.
#pragma once

#include <c10/util/Exception.h>

#include <functional>
#include <stdexcept>

#include "common/torch/graphs.h"

namespace coldframe {

struct GraphLog {
  int captures = 0, replays = 0, alive = 0;
  bool broken = false;  // capturing throws
  bool full = false;    // it finds no memory
  std::function<void()> before_replay{};
};

class FakeGraph : public Graph {
 public:
  explicit FakeGraph(GraphLog& log) : log_(log) { ++log_.alive; }
  ~FakeGraph() override { --log_.alive; }

  void capture(const std::function<void()>& work) override {
    TORCH_CHECK(!log_.full, "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate");
    if (log_.broken) throw std::runtime_error("operation not permitted when stream is capturing");
    ++log_.captures;
    work_ = work;
  }
  void replay() override {
    ++log_.replays;
    if (log_.before_replay) log_.before_replay();
    work_();
  }
  std::uint64_t bytes() const override { return 100; }

 private:
  GraphLog& log_;
  std::function<void()> work_;
};

inline MakeGraph fake_graphs(GraphLog& log) {
  return [&log] { return std::make_unique<FakeGraph>(log); };
}

}  // namespace coldframe

#include "common/torch/graphs.h"

#include <exception>
#include <string>
#include <utility>

#include "common/cli/log.h"
#include "common/system/gpu_libraries.h"
#include "common/text/text.h"
#include "common/torch/device.h"

namespace coldframe {

MakeGraph cuda_graphs() {
  using Makers = MakeGraph* (*)();
  static const auto makers = [] {
    std::string problem;
    void* const found =
        find_in_library("libcoldframe_cuda_graphs.so", "coldframe_cuda_graphs", problem);
    if (!found) log_info(concat("computing without CUDA graphs: ", problem));
    return reinterpret_cast<Makers>(found);
  }();
  if (!makers) return {};
  const std::unique_ptr<MakeGraph> make(makers());
  return *make;
}

void Recording::run(const std::function<void()>& work) {
  if (!graph_ && (!make_ || !std::exchange(warm_, true) || !capture(work))) return work();
  graph_->replay();
}

bool Recording::capture(const std::function<void()>& work) {
  auto graph = make_();
  try {
    graph->capture(work);
  } catch (const std::exception& error) {
    if (is_out_of_memory(error)) throw;
    log_info(concat("computing without CUDA graphs: ", first_line(error)));
    make_ = nullptr;
    return false;
  }
  graph_ = std::move(graph);
  return true;
}

void Recording::clear() {
  graph_ = nullptr;
  warm_ = false;
}

}  // namespace coldframe

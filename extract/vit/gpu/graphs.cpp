#include "extract/vit/gpu/graphs.h"

#include <exception>
#include <string>
#include <utility>

#include "common/cli/log.h"
#include "common/system/library.h"
#include "common/text/text.h"
#include "common/torch/error_text.h"

namespace coldframe::vit::gpu {

MakeGraph cuda_graphs() {
  using Make = Graph* (*)();
  static const auto make = [] {
    std::string problem;
    void* const found =
        find_in_library("libcoldframe_cuda_graphs.so", "coldframe_make_cuda_graph", problem);
    if (!found) log_info(concat("computing without CUDA graphs: ", problem));
    return reinterpret_cast<Make>(found);
  }();
  if (!make) return {};
  return [] { return std::unique_ptr<Graph>(make()); };
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

}  // namespace coldframe::vit::gpu

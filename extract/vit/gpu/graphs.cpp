#include "extract/vit/gpu/graphs.h"

#include <algorithm>
#include <exception>
#include <string>
#include <vector>

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

void Graphs::run(std::int64_t batch, const std::function<void()>& work) {
  Entry& entry = entries_[batch];
  entry.last_use = ++turn_;
  if (!entry.graph && (!make_ || ++entry.uses <= kWarmUps || !capture(entry, work))) return work();
  entry.graph->replay();
}

bool Graphs::capture(Entry& entry, const std::function<void()>& work) {
  make_room();
  auto graph = make_();
  try {
    graph->capture(work);
  } catch (const std::exception& error) {
    log_info(concat("computing without further CUDA graphs: ", first_line(error)));
    make_ = nullptr;
    return false;
  }
  entry.graph = std::move(graph);
  return true;
}

void Graphs::make_room() {
  std::vector<Entry*> recorded;
  for (auto& [batch, entry] : entries_)
    if (entry.graph) recorded.push_back(&entry);
  if (recorded.size() < kMost) return;
  Entry& oldest =
      **std::min_element(recorded.begin(), recorded.end(),
                         [](const Entry* a, const Entry* b) { return a->last_use < b->last_use; });
  oldest.graph = nullptr;
  oldest.uses = 0;
}

void Graphs::clear() {
  entries_.clear();
}

std::uint64_t Graphs::bytes() const {
  std::uint64_t sum = 0;
  for (const auto& [batch, entry] : entries_)
    if (entry.graph) sum += entry.graph->bytes();
  return sum;
}

}  // namespace coldframe::vit::gpu
